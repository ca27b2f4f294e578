r"""How exact computed kernels are.

Arithmetic of some digits gives an entry up to an error, which grows through the layers, where they amplify
correlations, and most for inputs that are nearly parallel. So it is measured. The kernels of some inputs are
computed once more with the last digit of the inputs changed: what moves is not known. Layers that make all
inputs alike forget that digit, and round in the same way again; so every layer adds one rounding at least.

Inputs that nearly repeat each other are worst. Where a kernel has a kink at $\rho=1$, as that of ReLU in the
angle, the error $\delta$ of a repeated input is the root of the rounding, and falls off with the correlation
of two inputs as $\delta^2/(\delta+1-\rho)$, which on a smooth kernel is no more than $\delta$. In deep
networks it falls off as a higher power, the one that leads to the error of two typical inputs.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.either import refuse_traced
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import activations_of, hidden_widths
from finitewidth.expectations.closed_forms import PiecewiseLinear, Step
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import blocks_by_laws, resolved_laws
from finitewidth.statistics.wide.position_kernels import has_positions
from finitewidth.statistics.wide.rules.pairs import Kernels

# Of up to so many points the program that made their kernels runs again; of more, a smaller one.
_SAME_PROGRAM, _PROBES, _PROBES_AT_POSITIONS = 512, 32, 8
_MOST = 64
# The share of normal numbers below 1.28 standard deviations in size.
_SHARE, _DEVIATIONS = 0.8, 1.2816


class Rounding(NamedTuple):
    r"""Errors of a kernel's entries, relative to $\sqrt{k_{aa}k_{bb}}$, as standard deviations.

    `typical` is that of two different inputs, `repeated` that of two that nearly repeat each other, and
    `power` says how the second falls off with the correlation.
    """

    typical: float
    repeated: float
    power: float = 1.0

    def of_entries(self, correlation: Float[np.ndarray, "n1 n2"]) -> Float[np.ndarray, "n1 n2"]:
        """Variances of the errors of entries with these correlations."""
        apart = np.abs(1 - np.abs(correlation)) + self.repeated
        return self.typical**2 + self.repeated**2 * (self.repeated / apart) ** (2 * self.power)


class KernelRounding(NamedTuple):
    """Errors of both kernels."""

    nngp: Rounding
    ntk: Rounding

    @classmethod
    def of_digits(cls, dtype: np.dtype) -> "KernelRounding":
        """Of kernels that are given: nothing is known of them but their last digit."""
        eps = float(np.finfo(dtype).eps)
        return cls(Rounding(eps / 2, eps), Rounding(eps / 2, eps))


def kernel_rounding(net: Layer, x1: ArrayLike, x2: ArrayLike | None = None) -> KernelRounding:
    """How exact `kernels(net, x1, x2)` are, measured at some of the inputs.

    Parameters
    ----------
    net, x1, x2
        As in `kernels`.

    Returns
    -------
    KernelRounding
        `nngp` and `ntk`, each with the standard deviations `typical`, of the error of an entry of two
        different inputs, and `repeated`, of two that nearly repeat each other, both relative to the diagonal.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> x = jax.random.normal(jax.random.key(0), (5, 3))
    >>> error = fw.kernel_rounding(fw.MLP(hidden=(64,) * 3, activation="relu"), x).ntk
    >>> error.typical < 1e-14, error.repeated < 1e-6
    (True, True)
    """
    rows = as_inputs("x1", x1, net)
    columns = rows if x2 is None else as_inputs("x2", x2, net).astype(rows.dtype)
    refuse_traced("kernel_rounding", net, rows, columns)
    laws, every = (
        resolved_laws(net, [rows, columns], None, None),
        np.concatenate([np.asarray(rows), np.asarray(columns)]),
    )
    total, positions = len(every), has_positions(rows)
    half = _PROBES_AT_POSITIONS if positions else _PROBES
    sizes = len(rows), len(columns)
    if total > (2 * half if positions else _SAME_PROGRAM):
        sizes, total = (half, half), 2 * half
    probes = min(max(total // 2, 1), _MOST)
    chosen = every[np.linspace(0, len(every) - 1, probes).astype(int)]
    rng = np.random.default_rng(0)
    eps = np.finfo(chosen.dtype).eps
    moved = chosen * (1 + eps * rng.choice([-1, 1], size=chosen.shape)).astype(chosen.dtype)
    placed = np.resize(np.concatenate([chosen, moved]), (total, *chosen.shape[1:]))
    parts = jax.block_until_ready(
        blocks_by_laws(net, laws, jnp.asarray(placed[: sizes[0]]), jnp.asarray(placed[sizes[0] :]))
    )
    eps, layers = float(eps), len(hidden_widths(net, rows.shape[1:])) + 1
    typical, kinks = eps / 2 * math.sqrt(layers), _kinks(net)
    least = (Rounding(typical, math.sqrt(eps) / 4 if kink else eps) for kink in kinks)
    return KernelRounding(*(_measured(_whole(parts, k), probes, floor) for k, floor in enumerate(least)))


def _whole(parts: tuple[Kernels, Kernels, Kernels], which: int) -> Float[np.ndarray, "n n"]:
    first, between, second = (np.asarray(kernels[which]) for kernels in parts)
    return np.block([[first, between.T], [between, second]])


def _measured(kernel: Float[np.ndarray, "n n"], probes: int, least: Rounding) -> Rounding:
    """From the kernel of some points and of the same points moved."""
    scale = np.sqrt(np.abs(np.diag(kernel)[:probes]))
    once, again = kernel[:probes, :probes], kernel[:probes, probes : 2 * probes]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation, moved = (np.nan_to_num(part / np.outer(scale, scale)) for part in (once, again))
    change, others = np.abs(moved - correlation).astype(float), ~np.eye(probes, dtype=bool)
    repeated = max(float(np.sqrt(np.mean(np.diag(change) ** 2))), least.repeated)
    if probes == 1:
        return Rounding(least.typical, repeated)
    typical = max(float(np.quantile(change[others], _SHARE)) / _DEVIATIONS, least.typical)
    gap = float(np.median(np.abs(1 - np.abs(correlation[others]))))
    lost, apart = np.log(repeated / typical), np.log1p(gap / repeated)
    return Rounding(typical, repeated, max(1.0, float(lost / apart)) if apart > 0 else 1.0)


def _kinks(net: Layer) -> tuple[bool, bool]:
    """Whether NNGP kernel and NTK have a kink at parallel inputs: from a jump, and from one of the slope."""
    laws = [activation.closed_form for activation in activations_of(net)]
    jumps = any(isinstance(law, Step) for law in laws)
    bends = any(isinstance(law, PiecewiseLinear) and law.left != law.right for law in laws)
    return jumps, jumps or bends
