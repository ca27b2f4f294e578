"""Draws the picture of attention with depth and prints its numbers: python docs/figures_attention.py"""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import finitewidth as fw
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course.architectures.networks.token_correlations import drawn_token_correlations
from finitewidth.course.architectures.theory.token_correlations import token_correlations
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"
TOKENS, BLOCKS, WIDTH, DRAWS = 16, 24, 128, 8
WIDTHS, NETWORKS = (8, 16, 32, 64), 200


def blocks(n: int) -> dict[str, fw.Layer]:
    """Five ways to build a block of a transformer of width n."""
    attention = fw.SelfAttention(n, 16, 16)
    dense = fw.Dense(n), fw.Activate("gelu"), fw.Dense(n)
    norm, branch, beta = fw.LayerNorm(), fw.Residual, (2 * BLOCKS) ** -0.5
    return {
        "attention alone": attention,
        "norms behind branches": fw.Sequential(branch(attention), norm, branch(*dense), norm),
        "pre-norm, attention": branch(norm, attention),
        "pre-norm, attention and dense": fw.Sequential(branch(norm, attention), branch(norm, *dense)),
        r"the same, branches times $(2L)^{-1/2}$": fw.Sequential(
            branch(norm, attention, beta=beta), branch(norm, *dense, beta=beta)
        ),
    }


def spread(heads: int, width: int) -> tuple[float, float]:
    """Standard deviation of one network's NTK over its mean, and its standard error."""
    net = fw.Sequential(
        fw.Dense(width, 0.0, 1.0),
        fw.SelfAttention(width, heads, width // heads if heads > 1 else width),
        fw.Activate("relu"),
        fw.GlobalAveragePool(),
        fw.Dense(1, 0.0, 1.0),
    )
    x = np.random.default_rng(0).normal(size=(1, 6, 4))
    ntk = fw.monte_carlo_kernels(net, x, key=jax.random.key(width), draws=NETWORKS, at_once=20).ntk
    ratio = float(ntk.sem[0, 0] * NETWORKS**0.5 / ntk.value[0, 0])
    print(
        f"{heads} heads, width {width}: NTK {ntk.value[0, 0]:.3f} +- {ntk.sem[0, 0]:.3f}, spread {ratio:.3f}"
    )
    return ratio, ratio / (2 * NETWORKS) ** 0.5


def picture() -> Figure:
    """Tokens by depth, and the spread of kernels that have no limit."""
    with style.house_style():
        figure, (left, right) = style.panels("Attention with depth, and with random logits", 2)
        for (name, block), color in zip(blocks(WIDTH).items(), style.PALETTE, strict=False):
            depth = 3 if name == "attention alone" else BLOCKS
            theory = token_correlations(block, depth, TOKENS).difference
            real = drawn_token_correlations(
                block, min(depth, 6), TOKENS, key=jax.random.key(0), draws=DRAWS
            ).difference
            print(
                name,
                np.array2string(theory.value[[1, 2, 3, -1]], precision=3),
                real.value[1:4],
                real.sem[1:4],
            )
            seen = theory.value > 1e-7
            style.theory_line(left, np.arange(depth + 1)[seen], theory.value[seen], color, name)
            shown = real.value > 1e-7
            at = np.arange(len(real.value))[shown]
            style.measured_points(left, at, real.value[shown], real.sem[shown], color)
        left.set(yscale="log", ylim=(1e-7, 2), xlabel="blocks", ylabel=r"$1-c$ of two tokens")
        left.legend(loc="lower left", bbox_to_anchor=(0.1, 0.0))
        for one, name, color in (
            (True, "one head", style.PALETTE[0]),
            (False, "width / 4 heads", style.PALETTE[1]),
        ):
            found = np.array([spread(1 if one else n // 4, n) for n in WIDTHS])
            style.measured_points(right, np.array(WIDTHS), *found.T, color, name)
            right.plot(WIDTHS, found[:, 0], color=color, lw=1)
        right.set(xscale="log", yscale="log", xlabel="width", ylabel="spread of the NTK over its mean")
        style.plain_ticks(right.xaxis, WIDTHS)
        right.legend()
    return figure


if __name__ == "__main__":
    save_figure(picture(), IMAGES / "attention-depth.png")
