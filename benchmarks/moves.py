"""What a moved slider costs: kernels of another network, and an ensemble with another number of steps.

    python benchmarks/moves.py [ACTIVATION ...]

CPU milliseconds a move, programs compiled while moving, and the largest error of the kernels at the corners
of the range, relative to the two inputs' own kernels. The range is that of the lab's page "bands":
C_W from 0.4 to 4, C_b from 0 to 1, 2 to 10 layers, 6 + 122 points.
"""

import itertools
import logging
import sys
import time
import warnings

import jax
import numpy as np

import finitewidth as fw

X = np.array([-1.6, -1.3, -0.85, 0.55, 0.9, 1.35])
POINTS = np.concatenate([X, np.linspace(-2.4, 2.4, 122)])[:, None]
C_W, C_B, DEPTHS = (0.4, 4.0), (0.0, 1.0), (2, 4, 10)
MOVES = 20


class Compilations(logging.Handler):
    """Counts what JAX says that it compiles."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.getMessage().startswith("Compiling ")


def kernel_moves(activation: str, compiled: Compilations) -> str:
    """One line about one activation."""
    adjustable = fw.adjustable_kernels(activation, POINTS, deepest=max(DEPTHS), C_W=C_W, C_b=C_B)
    jax.block_until_ready(adjustable.at(2, 1.0, 0.1))
    before, begun = compiled.count, time.process_time()
    for i in range(MOVES):
        jax.block_until_ready(adjustable.at(2 + i % 9, 1.0 + 0.1 * i, 0.01 * i))
    each = 1e3 * (time.process_time() - begun) / MOVES
    programs, worst = compiled.count - before, [0.0, 0.0]
    for W, b, depth in itertools.product(C_W, C_B, DEPTHS):
        exact = fw.kernels(fw.MLP((1,) * (depth - 1), activation, C_b=b, C_W=W), POINTS)
        for i, (mine, theirs) in enumerate(zip(adjustable.at(depth, W, b), exact, strict=True)):
            size = np.sqrt(np.diag(theirs))
            worst[i] = max(worst[i], float(np.max(np.abs(mine - theirs) / np.outer(size, size))))
    return (
        f"{activation:12s} {adjustable.terms or 'closed':>7} {adjustable.error:9.1e} {each:8.1f} ms "
        f"{programs:3d} programs   error of the NNGP kernel {worst[0]:.1e}, of the NTK {worst[1]:.1e}"
    )


def ensemble_moves(compiled: Compilations) -> str:
    """One line about numbers of steps."""
    net, y = fw.MLP((64,) * 3, "tanh", C_b=0.3, C_W=2.0), np.sin(2.2 * X)[:, None]
    run = lambda steps: fw.train_ensemble(
        net, jax.random.key(0), 8, X[:, None], y, steps=steps, learning_rate=0.01
    )
    begun = time.process_time()
    run(10)
    first = time.process_time() - begun
    before, begun = compiled.count, time.process_time()
    for steps in (11, 50, 200, 333):
        run(steps)
    each = (time.process_time() - begun) / 4
    return (
        f"train_ensemble: first {first:.1f} s with {before} programs, another number of steps {each:.2f} s "
        f"with {compiled.count - before}"
    )


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    compiled = Compilations()
    jax.config.update("jax_log_compiles", True)
    for name in ("jax", "jax._src.interpreters.pxla", "jax._src.dispatch"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [compiled], False
    print(ensemble_moves(compiled), flush=True)
    print("activation     terms  left out     move")
    for activation in sys.argv[1:] or [name for name in fw.ACTIVATION_NAMES if name != "step"]:
        print(kernel_moves(activation, compiled), flush=True)


if __name__ == "__main__":
    main()
