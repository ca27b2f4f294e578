"""How far trained networks are from their predicted law, in standard errors."""

import math
import os
from pathlib import Path

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy import special

from finitewidth.architecture.saving import save
from finitewidth.prediction.methods.infinite_width.curves import LossCurves
from finitewidth.verification.overall import FALSE_ALARM, RATE, LawError, Overall, Ratio, compare


class MeasuredCurves(eqx.Module):
    """Loss per point of real networks during training: averages over networks, with standard errors."""

    train: Float[np.ndarray, " times"]
    train_sem: Float[np.ndarray, " times"]
    test: Float[np.ndarray, " times"] | None
    test_sem: Float[np.ndarray, " times"] | None


class Verification(eqx.Module):
    """Trained networks beside their law, at every test point and output.

    Attributes
    ----------
    networks, steps, eta, ridge
        How many networks were trained, and how.
    distance_to_end
        How far the predicted mean would still move in further training, in standard errors.
    unsettled
        The share of their way that features moved by training have still to go under a ridge; zero where
        the law has no correction for finite width, or describes as many steps.
    order, depth, width
        Order of the prediction in 1/width, affine layers and smallest hidden width of the networks.
    predicted_mean, predicted_std
        The law after so many steps; the standard deviation is one for all outputs.
    predicted_correction
        The part of the predicted mean that is due to finite width; None at order 0.
    infinite_std
        The standard deviation predicted for infinite width; None at order 0.
    outputs
        Of every network, (networks, test, out).
    predicted_loss, loss
        Loss per point during training; the predicted one is that of infinite width at any order.
    predicted_covariance
        Of the test points, for every output; with None the comparison as a whole goes by variances alone.
    mean_error, covariance_error
        Standard errors of a law that was sampled; None where it was not.
    """

    networks: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    eta: float = eqx.field(static=True)
    ridge: float = eqx.field(static=True)
    distance_to_end: float = eqx.field(static=True)
    unsettled: float = eqx.field(static=True)
    order: int | str = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    predicted_mean: Float[np.ndarray, "test out"]
    predicted_std: Float[np.ndarray, " test"]
    predicted_correction: Float[np.ndarray, "test out"] | None
    infinite_std: Float[np.ndarray, " test"] | None
    outputs: Float[np.ndarray, "networks test out"]
    predicted_loss: LossCurves
    loss: MeasuredCurves
    predicted_covariance: Float[np.ndarray, "test test"] | None = None
    mean_error: Float[np.ndarray, "test out"] | None = None
    covariance_error: Float[np.ndarray, "test test"] | None = None

    def save(self, path: str | os.PathLike) -> Path:
        """Write the comparison and all outputs into one file; `finitewidth.load` gives every bit back."""
        return save(self, path)

    @property
    def mean(self) -> Float[np.ndarray, "test out"]:
        """Average output of the networks."""
        return self.outputs.mean(axis=0)

    @property
    def std(self) -> Float[np.ndarray, "test out"]:
        """Standard deviation of the networks' outputs."""
        return self.outputs.std(axis=0, ddof=1)

    @property
    def sem(self) -> Float[np.ndarray, "test out"]:
        """Standard error of the average output."""
        return self.std / math.sqrt(self.networks)

    @property
    def z_mean(self) -> Float[np.ndarray, "test out"]:
        """Measured minus predicted mean, in standard errors; Student's t as an equally likely deviate."""
        t = (self.mean - self.predicted_mean) / self.sem
        return np.sign(t) * _deviate(special.stdtr(self.networks - 1, -np.abs(t)))

    @property
    def z_std(self) -> Float[np.ndarray, "test out"]:
        """Measured minus predicted spread, in standard errors; the law of chi squared counts as normal."""
        free = self.networks - 1
        smallest = np.finfo(float).tiny
        ratio = free * self.std**2 / np.maximum(self.predicted_std[:, None] ** 2, smallest)
        below, above = special.chdtr(free, ratio), special.chdtrc(free, ratio)
        return np.where(below < above, -_deviate(below), _deviate(above))

    @property
    def expected_difference(self) -> float:
        """Relative size of what a prediction of this order leaves out, a power of depth/width."""
        return left_out(self.depth, self.width, self.order)

    @property
    def correction_ratio(self) -> Ratio | None:
        """How far networks move in the direction of their predicted correction, in units of it.

        One means that finite width acts as predicted, zero that the networks are at infinite width. None at
        order 0.
        """
        if self.predicted_correction is None:
            return None
        correction = self.predicted_correction
        infinite = self.predicted_mean - correction
        share = np.einsum("nto,to->n", self.outputs - infinite, correction) / np.sum(correction**2)
        return Ratio(float(share.mean()), float(share.std(ddof=1)) / math.sqrt(self.networks))

    def shift_by_group(self, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predicted and measured shifts from infinite width with standard errors, in groups of like size.

        The outputs of one network are correlated, so a group is averaged in every network first.
        """
        if self.predicted_correction is None:
            raise ValueError("there is no predicted correction at order 0.")
        predicted = self.predicted_correction.ravel()
        infinite = self.predicted_mean.ravel() - predicted
        shift = self.outputs.reshape(self.networks, -1) - infinite
        members = np.array_split(np.argsort(predicted), min(groups, len(predicted)))
        by_network = np.stack([shift[:, m].mean(axis=1) for m in members])
        sem = by_network.std(axis=1, ddof=1) / math.sqrt(self.networks)
        return np.array([predicted[m].mean() for m in members]), by_network.mean(axis=1), sem

    @property
    def difference(self) -> Ratio:
        """Root mean square difference of the means, relative to the predicted mean's size."""
        gap = self.mean - self.predicted_mean
        size = math.sqrt(float(np.sum(gap**2)))
        along = np.einsum("nto,to->n", self.outputs, gap) / max(size, np.finfo(float).tiny)
        sem = float(along.std(ddof=1)) / math.sqrt(self.networks)
        return Ratio(
            _relative(gap, self.predicted_mean), sem / math.sqrt(float(np.sum(self.predicted_mean**2)))
        )

    @property
    def noise(self) -> float:
        """What `difference` would be from the finite number of networks alone."""
        return _relative(self.sem, self.predicted_mean)

    @property
    def std_ratio(self) -> Ratio:
        """Measured over predicted spread, root mean square over test points."""
        return self._over(self.predicted_std)

    @property
    def infinite_std_ratio(self) -> Ratio | None:
        """Measured spread over the one of infinite width; None at order 0."""
        return None if self.infinite_std is None else self._over(self.infinite_std)

    def _over(self, std: Float[np.ndarray, " test"]) -> Ratio:
        """The measured spread over another; networks are independent, the outputs of one are not."""
        squares = np.mean((self.outputs - self.mean) ** 2, axis=(1, 2)) / np.mean(std**2)
        value = _relative(self.std, std)
        return Ratio(value, float(squares.std(ddof=1)) / (2 * value * math.sqrt(self.networks)))

    @property
    def z_limit(self) -> float:
        """Standard errors that the worst of all comparisons exceeds by chance once in four thousand times."""
        return -float(special.ndtri(RATE / (4 * self.predicted_mean.size)))

    @property
    def overall(self) -> Overall | None:
        """Mean, size and shape of the spread tested as a whole; None where the law has no spread."""
        covariance = self.predicted_covariance
        if covariance is None:
            covariance = self.predicted_std**2
        error = LawError.of(covariance, self.expected_difference, self.mean_error, self.covariance_error)
        return compare(self.outputs, self.predicted_mean, covariance, self.depth / self.width, error)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What differs from the law: "single outputs", and as a whole "mean", "spread" and "shape".

        Networks that follow their law raise each of these once in four thousand times. What finite width adds
        beyond the order of the law is not allowed for: with enough networks it is seen.
        """
        worst = max(np.abs(self.z_mean).max(), np.abs(self.z_std).max())
        single = () if worst < self.z_limit else ("single outputs",)
        overall = self.overall
        return single if overall is None else single + overall.alarms

    @property
    def agrees(self) -> bool:
        """Whether there is no alarm; networks that follow their law raise one once in a thousand times."""
        return not self.alarms

    @property
    def detectable(self) -> float:
        """The relative error of the predicted spread that 95 of 100 comparisons like this one notice."""
        overall = self.overall
        return math.inf if overall is None else overall.spread.detectable

    def __str__(self) -> str:
        steps = "at the end of training" if self.unsettled > 0 else "after as many steps"
        beside = self.infinite_std_ratio
        without = f" (infinite width: {_with_error(beside)})" if beside is not None else ""
        anchored = f" and ridge {self.ridge:.3g}" if self.ridge else ""
        theory = "infinite width" if self.order == 0 else f"order {self.order} in 1/width"
        power = "" if _power_left(self.order) == 1 else f"^{_power_left(self.order)}"
        gap = self.difference
        lines = [
            f"{self.networks} networks of width {self.width}, {self.steps} steps with eta = {self.eta:.3g}"
            f"{anchored}, against {theory} {steps}",
            _line("mean", self.z_mean),
            f"{_line('spread', self.z_std)}; measured / predicted {_with_error(self.std_ratio)}{without}",
            f"the means differ by {100 * gap.value:.2g} +- {100 * gap.sem:.1g} % of their size, sampling "
            f"noise alone would give {100 * self.noise:.2g} %; corrections of order (depth/width){power} = "
            f"{100 * self.expected_difference:.2g} % are expected and not allowed for",
        ]
        if (overall := self.overall) is not None:
            lines += [overall_words(overall), detectable_words(overall)]
        if (ratio := self.correction_ratio) is not None:
            lines.append(
                f"the networks' shift from infinite width is {_with_error(ratio, 2)} times the predicted one"
            )
        if self.distance_to_end > 0:
            lines.append(
                f"training on to the end would move the mean by {self.distance_to_end:.2g} standard errors"
            )
        if self.unsettled > 0:
            lines.append(
                "features that training has moved settle at the pace of the ridge: "
                f"{100 * self.unsettled:.2g} % of their way is left"
            )
        return "\n".join([*lines, self.verdict])

    @property
    def verdict(self) -> str:
        """One sentence: whether networks and law agree, and if not, in what they differ."""
        if self.agrees:
            rate = f"{1 / FALSE_ALARM:,.0f}"
            return f"verdict: the networks agree with the law (a false alarm comes once in {rate} times)"
        return f"verdict: the networks differ from the law in {alarm_words(self.alarms)}"


def left_out(depth: int, width: int, order: int | str) -> float:
    """Relative size of what a prediction of an order leaves out, a power of depth/width."""
    return (depth / width) ** _power_left(order)


def _power_left(order: int | str) -> int:
    """At order 1/2 what is left is of order 1/width, as at infinite width without kinks."""
    return 2 if order == 1 else 1


def overall_words(overall: Overall) -> str:
    """What the tests of the whole say, with their probabilities."""
    where = f"{overall.directions} direction{'s' if overall.directions > 1 else ''} of the covariance"
    if not overall.whitened:
        where = f"{overall.directions} variances"
    shape = "" if overall.shape is None else f", shape p = {overall.shape:.2g}"
    return (
        f"as a whole, in {where}: mean p = {overall.mean:.2g}, spread {_with_error(overall.spread.ratio)} "
        f"times the predicted one, p = {overall.spread.p:.2g}{shape}; below {RATE:.2g} is an alarm"
    )


def detectable_words(overall: Overall) -> str:
    """What the comparison could have seen."""
    least = overall.spread.detectable
    if not math.isfinite(least):
        return "so few networks notice no wrong spread nineteen times in twenty"
    percent = f"{100 * least:.2g}" if least < 0.995 else f"{100 * least:.0f}"
    return f"a spread wrong by {percent} % or more would have been noticed nineteen times in twenty"


def alarm_words(alarms: tuple[str, ...]) -> str:
    """Alarms as one says them."""
    whole = [name for name in alarms if name != "single outputs"]
    parts = [name for name in alarms if name == "single outputs"]
    return " and in ".join(parts + ([f"{', '.join(whole)} as a whole"] if whole else []))


def _with_error(ratio: Ratio, digits: int = 3) -> str:
    return f"{ratio.value:.{digits}f} +- {ratio.sem:.{digits}f}"


def _deviate(probability: np.ndarray) -> np.ndarray:
    """The standard normal deviate that is exceeded with a given probability of at most one half."""
    return -special.ndtri(np.maximum(probability, np.finfo(float).tiny))


def _relative(part: np.ndarray, whole: np.ndarray) -> float:
    """Ratio of root mean squares."""
    return math.sqrt(float(np.mean(part**2)) / float(np.mean(whole**2)))


def _line(name: str, z: np.ndarray) -> str:
    size = np.abs(z)
    return (
        f"{name}: {np.sum(size < 2)} of {z.size} within 2 standard errors, root mean square "
        f"{math.sqrt(float(np.mean(z**2))):.2f} (noise alone: 1), largest {size.max():.1f}"
    )
