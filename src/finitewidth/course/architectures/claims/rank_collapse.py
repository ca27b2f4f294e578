"""Attention makes tokens alike from block to block; a shortcut slows it down, small branches stop it."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.attention import SelfAttention
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.normalisation import LayerNorm
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Sequential
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import combined
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course.architectures.networks.token_correlations import drawn_token_correlations
from finitewidth.course.architectures.theory.token_correlations import token_correlations
from finitewidth.report import style
from finitewidth.report.style import Figure

_TOKENS = 12


def _branches(n: int, beta: float, scaling: str) -> Layer:
    """Attention and a dense branch, each behind a LayerNorm."""
    attention = SelfAttention(n, n // 4, n // 4, scaling=scaling)
    dense = Dense(n), Activate("gelu"), Dense(n)
    return Sequential(Residual(LayerNorm(), attention, beta=beta), Residual(LayerNorm(), *dense, beta=beta))


@dataclass(frozen=True)
class Tokens:
    """Twelve tokens of correlation 0.3 in stacks of three kinds of block."""

    blocks: int
    width: int
    draws: int
    # Draws of attention alone, in units of the others': one block is cheap, and so is one of half the width.
    alone: int = 16

    def kinds(self, n: int, scaling: str = "sqrt", scaled: bool = True) -> dict[str, tuple[Layer, int]]:
        """The block of each kind and how many of them."""
        beta = (2 * self.blocks) ** -0.5 if scaled else 1.0
        return {
            "attention alone": (SelfAttention(n, n // 4, n // 4, scaling=scaling), 1),
            "pre-norm": (_branches(n, 1.0, scaling), self.blocks),
            "small branches": (_branches(n, beta, scaling), self.blocks),
        }

    def predicted(self, scaling: str = "sqrt", scaled: bool = True) -> Prediction:
        return {
            name: token_correlations(block, depth, _TOKENS).difference.value
            for name, (block, depth) in self.kinds(4, scaling, scaled).items()
        }

    def theory(self) -> Prediction:
        return self.predicted()

    def measure(self, key: PRNGKeyArray) -> Measurement:
        found = {
            name: drawn_token_correlations(block, depth, _TOKENS, key=key, draws=self.draws).difference
            for name, (block, depth) in self.kinds(self.width).items()
            if name != "attention alone"
        }
        both = []
        for half, own in zip((2, 1), jax.random.split(key), strict=True):
            block, depth = self.kinds(self.width // half)["attention alone"]
            drawn = drawn_token_correlations(block, depth, _TOKENS, key=own, draws=self.alone * self.draws)
            both.append(drawn.difference)
        # What is in one over the number of heads cancels.
        return {"attention alone": combined((-1, 2), both), **found}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name, value in predicted.items():
            # Corrections of one over the number of heads, or of its square where two widths are combined.
            heads = self.width // 4
            left, words = (
                (8 / heads**2, "8 / heads^2") if name == "attention alone" else (1 / heads, "1 / heads")
            )
            yield z_score(f"1 - c, {name}", value, measured[name], left * value, words)

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("How different tokens stay")
        for (name, value), color in zip(predicted.items(), style.PALETTE, strict=False):
            depths = np.arange(len(value))
            style.theory_line(axes, depths, value, color, name)
            style.measured_points(axes, depths, measured[name].value, measured[name].sem, color)
        axes.set(xlabel="blocks", ylabel=r"$1-c$", yscale="log")
        axes.legend()
        return figure


CLAIMS = (
    Claim(
        id="attention-rank-collapse",
        title="attention makes tokens alike; small branches keep them apart",
        statement="""Softmax attention over T tokens multiplies their own part D = q(1 - c) by
        C_OV (r_1 - r_2) and hands the rest to the part they share. Pre-norm shortcuts make 1 - c fall slowly;
        with branches of size (2L)^-1/2 it stays of order one behind L blocks.""",
        source=f"{BEYOND}: the recursion of one block, as in {BOOK}, with softmax over Gaussian logits",
        quick=Tokens(4, 64, 40),
        full=Tokens(12, 128, 200),
        notices=dict.fromkeys(("pre-norm", "small branches"), 1.3),
        wrong={
            "attention alone": lambda setting, value: setting.predicted("linear-untied")["attention alone"],
            "pre-norm": lambda setting, value: setting.predicted()["small branches"],
            "small branches": lambda setting, value: setting.predicted(scaled=False)["small branches"],
        },
    ),
)
