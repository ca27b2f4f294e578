r"""The coordinate check: do activations and their changes in training keep their size when the width grows?

At every site with preactivations z (points, positions, units) and after t steps of training: the size
$\sqrt{\mathrm{Avg}\,z_t^2}$ and the change $\sqrt{\mathrm{Avg}\,(z_t-z_0)^2}$, at several widths. Fitted
powers of the width say what a learning rate does when it moves to a wider network. A change that grows ends
in divergence, one that falls means features that no longer learn; with the maximal-update parametrisation
neither happens.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from finitewidth._base.checks import check_whole, check_widths
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth._base.foreign import is_torch
from finitewidth.measure.labels import Loss
from finitewidth.measure.specimen import Specimen, specimen

# A power below this is within what widths of a factor of ten make of corrections in 1/width.
_FLAT = 0.2
_SURE = 2.0


class CoordinateCheck(NamedTuple):
    """Sizes and changes of preactivations by site, width, step and draw."""

    widths: tuple[int, ...]
    """The widths, rising."""
    sites: tuple[str, ...]
    """The names of the sites, in the order of the computation; the last is the output."""
    sizes: Float[np.ndarray, "sites widths times draws"]
    """Root mean square of z after 0, 1, ..., steps."""
    changes: Float[np.ndarray, "sites widths steps draws"]
    """Root mean square of z_t - z_0 after 1, ..., steps."""
    losses: Float[np.ndarray, "widths times draws"]
    """The mean loss after 0, 1, ..., steps."""

    def exponents(self, step: int = -1, of: str = "changes") -> Estimate:
        """The power of the width that sizes or changes grow with, (sites,), after a step.

        Fitted to the logarithms draw by draw; the standard error is that over the draws.
        """
        values = {"changes": self.changes, "sizes": self.sizes}[of][:, :, step]
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        x = np.log(self.widths) - np.mean(np.log(self.widths))
        slopes = np.einsum("w,swd->ds", x, logs) / np.sum(x**2)
        return sample_mean(slopes)

    @property
    def growing(self) -> tuple[str, ...]:
        """Sites whose change after the last step grows with the width."""
        return self._where(lambda power, sem: power - _SURE * sem > _FLAT)

    @property
    def vanishing(self) -> tuple[str, ...]:
        """Sites whose change after the last step falls with the width."""
        return self._where(lambda power, sem: power + _SURE * sem < -_FLAT)

    @property
    def verdict(self) -> str:
        """What the powers mean, in words."""
        powers = dict(zip(self.sites, self.exponents().value, strict=True))
        steps, ratio = self.changes.shape[2], self.widths[-1] / self.widths[0]
        range_of = lambda names: _range([powers[name] for name in names])
        if self.growing:
            worst = max(self.growing, key=lambda name: powers[name])
            return (
                f"not stable in width: after {steps} steps the change of {_listed(self.growing)} grows as "
                f"width^{range_of(self.growing)}. A learning rate that is right at width {self.widths[0]} "
                f"moves {worst} {ratio ** powers[worst]:.3g} times too far at width {self.widths[-1]}."
            )
        if self.vanishing:
            return (
                f"lazy in width: after {steps} steps the change of {_listed(self.vanishing)} falls as "
                f"width^{range_of(self.vanishing)}. These features learn less and less as the width grows."
            )
        return (
            f"stable in width: after {steps} steps no change has a power of the width beyond {_FLAT} "
            f"(they are {range_of(self.sites).strip('()')}). A learning rate carries over to other widths."
        )

    def _where(self, holds: Callable[[float, float], bool]) -> tuple[str, ...]:
        found = self.exponents()
        return tuple(
            name for name, *power in zip(self.sites, found.value, found.sem, strict=True) if holds(*power)
        )


def coordinate_check(
    build: Callable[[int, int], tuple],
    widths: Sequence[int],
    x: Any,
    y: Any,
    *,
    steps: int = 4,
    draws: int = 3,
    loss: Loss | None = None,
) -> CoordinateCheck:
    """Train networks of several widths for a few steps and watch every preactivation.

    Parameters
    ----------
    build
        A function of (width, seed). In JAX it returns a network of finitewidth's layers or a function of
        (params, x), its params and an Optax optimiser; in PyTorch a module and its optimiser. Learning rates
        that depend on the width belong in there: they are what is tested.
    widths
        At least two, rising.
    x, y
        Inputs and labels, as in `specimen`; the objective is the mean over all points, in one batch.
    steps
        Steps of training.
    draws
        Networks of each width, with seeds 0, 1, ...: at least two.
    loss
        As in `specimen`.

    Examples
    --------
    >>> import torch, finitewidth as fw
    >>> def build(width, seed):
    ...     torch.manual_seed(seed)
    ...     model = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
    ...     return model, torch.optim.SGD(model.parameters(), lr=0.1)
    >>> x = torch.randn(8, 3)
    >>> check = fw.measure.coordinate_check(build, [64, 128], x, x[:, :1], steps=2, draws=2)
    >>> check.sites, check.changes.shape
    (('0', '2'), (2, 2, 2, 2))
    """
    widths = check_widths(widths)
    check_whole("steps", steps)
    check_whole("draws", draws, least=2)
    runs = [[_run(build, width, seed, x, y, steps, loss) for seed in range(draws)] for width in widths]
    sites = runs[0][0].sites
    for row, width in zip(runs, widths, strict=True):
        for run in row:
            if run.sites != sites:
                raise ValueError(
                    f"networks of width {widths[0]} have the sites {', '.join(sites)}, those of width "
                    f"{width} have {', '.join(run.sites)}: they must be the same network at another width."
                )
    stack = lambda name: np.stack([np.stack([getattr(run, name) for run in row], axis=-1) for row in runs])
    return CoordinateCheck(
        widths,
        sites,
        stack("sizes").transpose(1, 0, 2, 3),
        stack("changes").transpose(1, 0, 2, 3),
        stack("losses"),
    )


class _Run(NamedTuple):
    """One network: sizes (sites, times), changes (sites, steps) and losses (times,)."""

    sites: tuple[str, ...]
    sizes: np.ndarray
    changes: np.ndarray
    losses: np.ndarray


def _run(build: Callable, width: int, seed: int, x: Any, y: Any, steps: int, loss: Loss | None) -> _Run:
    built = build(width, seed)
    if not isinstance(built, tuple) or len(built) != (
        2 if isinstance(built, tuple) and is_torch(built[0]) else 3
    ):
        raise ValueError(
            "build must return (network, params, Optax optimiser), or (PyTorch module, its optimiser); "
            f"at width {width} it returned {_kind(built)}."
        )
    if len(built) == 2:
        module, optimizer = built
        advance, first = _torch_steps(module, optimizer, x, y, loss), specimen(module, x, y, loss=loss)
    else:
        model, params, optimizer = built
        first = specimen(model, x, y, params=params, loss=loss)
        advance = _optax_steps(params, optimizer)
    current, seen, losses = first, [], []
    for step in range(steps + 1):
        if step:
            current = advance(current)
        losses.append(current.value())
        seen.append(current.look(np.ones_like(current.outputs())))
    size = lambda z: float(np.sqrt(np.mean(np.square(z, dtype=float))))
    start = seen[0]
    return _Run(
        tuple(site.name for site in start),
        np.array([[size(sites[i].leaving) for sites in seen] for i in range(len(start))]),
        np.array(
            [[size(sites[i].leaving - site.leaving) for sites in seen[1:]] for i, site in enumerate(start)]
        ),
        np.array(losses),
    )


def _optax_steps(params: Any, optimizer: Any) -> Callable[[Specimen], Specimen]:
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(f"the optimiser of a network in JAX must be Optax's, got {type(optimizer).__name__}.")
    _, unravel = ravel_pytree(params)
    memory = [optimizer.init(params)]

    def advance(current: Specimen) -> Specimen:
        weights = unravel(jnp.asarray(current.weights))
        updates, memory[0] = optimizer.update(unravel(jnp.asarray(current.gradient())), memory[0], weights)
        return current.at(np.asarray(ravel_pytree(optax.apply_updates(weights, updates))[0]))

    return advance


def _torch_steps(
    module: Any, optimizer: Any, x: Any, y: Any, loss: Loss | None
) -> Callable[[Specimen], Specimen]:
    import torch

    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"the optimiser of a PyTorch module must be PyTorch's, got {type(optimizer).__name__}."
        )

    def advance(current: Specimen) -> Specimen:
        gradient = current.gradient()
        parameters = dict(module.named_parameters())
        for name, (place, shape) in current.groups.items():
            weight = parameters[name]
            weight.grad = torch.tensor(
                gradient[place].reshape(shape), dtype=weight.dtype, device=weight.device
            )
        optimizer.step()
        return specimen(module, x, y, loss=loss)

    return advance


def _kind(built: Any) -> str:
    return f"a tuple of {len(built)}" if isinstance(built, tuple) else f"a {type(built).__name__}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _range(powers: Sequence[float]) -> str:
    low, high = f"{min(powers):.2f}", f"{max(powers):.2f}"
    return low if low == high else f"({low} to {high})"
