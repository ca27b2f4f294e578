"""A process that measures nearly-kernel predictions, and gradient descent on the same quadratic model."""

import ctypes
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from own_kernels import versions
from turns import serve

import finitewidth as fw
from finitewidth.architecture.models.meta_kernel import ScaledMetaKernel
from finitewidth.architecture.models.random_neurons import NeuronMetaKernel, RandomNeurons
from finitewidth.architecture.models.tangent_model import TangentModel

_RANK, _INPUTS = 8, 10
_CHUNK = 500
_PAGE = 4096
job = {}


def prepare(train, test):
    """Random kernels and meta kernels as arrays: each slice of rank eight, so that drawing them is quick."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(train + test, 2 * train)) / np.sqrt(2 * train)
    legs = rng.normal(size=(train + test, _RANK)) / _RANK
    weights = 1e-3 * rng.normal(size=(train + test, _RANK))
    A, B = slice(0, train), slice(train, None)

    def slices(points, left, right):
        mu = np.empty((len(weights[points]), len(legs[left]), len(legs[right])))
        for a, c in enumerate(weights[points]):
            np.matmul(legs[left] * c, legs[right].T, out=mu[a])
        return mu

    k = phi @ phi[A].T
    job["arrays"] = (
        k[A],
        k[B],
        slices(A, A, A),
        slices(B, A, A),
        slices(A, B, A),
        rng.normal(size=(train, 1)),
    )


def run():
    """Seconds of one prediction from the arrays."""
    start = time.perf_counter()
    job["result"] = jax.block_until_ready(fw.nearly_kernel(*job["arrays"], fw.GradientFlow()))
    return time.perf_counter() - start


def memory():
    """Bytes that one prediction needs beside its arguments: the peak above the size before."""
    # Memory that earlier runs have freed goes back to the system first, or it would be used again unseen.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    run()
    return max(_status("VmHWM") - before, _PAGE)


def _status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def layer(train, test, neurons, ridge, epsilon):
    """A hidden layer with a penalty on its weights, ready for the formula and for gradient descent."""
    rng = np.random.default_rng(1)
    x, x_test = rng.normal(size=(train, _INPUTS)), rng.normal(size=(test, _INPUTS))
    y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]
    drawn = RandomNeurons.draw(jax.random.key(0), _INPUTS, neurons, "tanh", 1.0)
    A = drawn.at(x)
    penalty = ridge * float(np.mean(np.diag(drawn.kernel(A, A))))
    job["layer"] = (drawn, x, y, x_test, penalty, epsilon)


def formula():
    """Seconds from inputs to the nearly-kernel prediction of the layer, meta kernel as a map."""
    drawn, x, y, x_test, penalty, epsilon = job["layer"]
    start = time.perf_counter()
    A, B = drawn.at(x), drawn.at(x_test)
    triples = ((A, A, A), (B, A, A), (A, B, A))
    mus = [ScaledMetaKernel(NeuronMetaKernel(drawn, points), epsilon) for points in triples]
    k = drawn.kernel(A, A)
    machine = fw.nearly_kernel(k, drawn.kernel(B, A), *mus, y, fw.GradientDescent(), ridge=penalty)
    job["prediction"] = np.asarray(machine.prediction)
    return time.perf_counter() - start


def _outputs(params, x):
    a, w, private = params
    inputs, own = x[:, :_INPUTS], x[:, _INPUTS:]
    inputs = jnp.column_stack([inputs, jnp.ones(len(inputs))]) / jnp.sqrt(_INPUTS + 1)
    return (jnp.tanh(inputs @ w.T) @ a / jnp.sqrt(len(a)) + own @ private)[:, None]


def descend(most):
    """Gradient descent on the weights of the quadratic layer until nothing moves."""
    drawn, x, y, x_test, penalty, epsilon = job["layer"]
    params = (jnp.asarray(drawn.a), jnp.asarray(drawn.w), jnp.zeros(len(x)))
    centred = lambda p, points: _outputs(p, points) - _outputs(params, points)
    model = TangentModel(centred, params, order=2, epsilon=epsilon)
    points = model.at(np.column_stack([x, np.sqrt(penalty) * np.eye(len(x))]))
    there = model.at(np.column_stack([x_test, np.zeros((len(x_test), len(x)))]))
    A = drawn.at(x)
    eta = 1 / (np.linalg.eigvalsh(drawn.kernel(A, A))[-1] + penalty)

    @jax.jit
    def chunk(w):
        def step(w, _):
            e, pull = jax.vjp(lambda v: points(v) - y, w)
            return w - eta * pull(e)[0], None

        return jax.lax.scan(step, w, None, length=_CHUNK)[0]

    outputs = eqx.filter_jit(there)
    jax.block_until_ready((chunk(model.zeros()), outputs(model.zeros())))
    w, seconds, path = model.zeros(), [0.0], [np.asarray(outputs(model.zeros()))]
    while len(path) * _CHUNK < most:
        start = time.perf_counter()
        w = jax.block_until_ready(chunk(w))
        seconds.append(seconds[-1] + time.perf_counter() - start)
        path.append(np.asarray(outputs(w)))
        if np.abs(path[-1] - path[-2]).max() < 1e-9 * np.abs(path[-1]).max():
            break
    error = float(np.abs(job["prediction"] - path[-1]).max())
    reached = next(i for i, z in enumerate(path) if np.abs(z - path[-1]).max() <= error)
    return {
        "seconds": seconds[reached],
        "steps": reached * _CHUNK,
        "error": error,
        "scale": float(np.abs(path[-1]).max()),
        "finished": len(path) * _CHUNK < most,
    }


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, memory, layer, formula, descend, versions)})
