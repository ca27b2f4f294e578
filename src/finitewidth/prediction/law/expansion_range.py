r"""Where the expansion in 1/width can be trusted.

The coefficient of 1/n grows with the number of training points and with one over the smallest eigenvalue
of the training NTK, so depth/width alone does not say how small the correction is. Two numbers do: the
correction relative to the mean, and the mean square fluctuation of the training kernel measured in that
kernel itself,

$$\kappa=\frac1N\,\mathrm{tr}\,E[\Theta^{-1}\Delta H\,\Theta^{-1}\Delta H]\;n ,$$

which is what the series is made of: $\kappa/n$ is the relative variance of a mode's learning speed.
"""

import warnings

import equinox as eqx
import numpy as np
from jaxtyping import Float

# Trained tanh networks leave the first-order law by 10 to 20 per cent of the correction where both
# numbers are this small; see the guide to training at finite width.
CLEAN_FLUCTUATION = 0.02
CLEAN_RATIO = 0.01
# Past these the next orders are as likely to matter as the first.
LARGEST_FLUCTUATION = 0.2
LARGEST_RATIO = 0.05


class ExpansionRange(eqx.Module):
    """How small the first correction is.

    Attributes
    ----------
    width
        Width of the last hidden layer, which the expansion is written in.
    depth_over_width
        Depth over the smallest hidden width.
    ratio
        Correction over mean, as root mean squares over test points.
    fluctuation
        Relative variance of the training kernel, kappa / n.
    trusted_width
        From this width on (all hidden layers scaled alike) the correction can be trusted to ten or
        twenty per cent of itself.
    """

    width: int = eqx.field(static=True)
    depth_over_width: float = eqx.field(static=True)
    ratio: float = eqx.field(static=True)
    fluctuation: float = eqx.field(static=True)
    trusted_width: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        hidden: tuple[int, ...],
        mean: Float[np.ndarray, "test out"],
        coefficient: Float[np.ndarray, "test out"],
        kappa: float,
    ) -> "ExpansionRange":
        """From the infinite-width mean, the coefficient of 1/n and kappa."""
        n = hidden[-1]
        size = lambda a: float(np.sqrt(np.mean(np.square(a))))
        ratio = size(coefficient) / size(mean) if size(mean) > 0 else np.inf
        needed = max(ratio / CLEAN_RATIO, kappa / CLEAN_FLUCTUATION)
        trusted = int(np.ceil(min(needed, 1e15)))
        return cls(n, (len(hidden) + 1) / min(hidden), ratio / n, float(kappa) / n, trusted)

    @property
    def small(self) -> bool:
        """Whether both numbers are below the limits past which a warning is given."""
        return self.ratio <= LARGEST_RATIO and self.fluctuation <= LARGEST_FLUCTUATION

    @property
    def words(self) -> str:
        """One sentence for a report."""
        numbers = (
            f"the correction is {self.ratio:.2g} of the mean, the training kernel fluctuates by "
            f"{np.sqrt(self.fluctuation):.2g} of itself, and depth/width is {self.depth_over_width:.2g}"
        )
        if self.width >= self.trusted_width:
            return f"At width {self.width} {numbers}: the first correction can be trusted here."
        return (
            f"At width {self.width} {numbers}: trust the first correction from width "
            f"{self.trusted_width} on; below, take its sign and size as a hint only."
        )

    def warn(self) -> None:
        """Warn when the correction is not small."""
        if not self.small:
            warnings.warn(
                f"the expansion in 1/width is not small on this data (limits: correction/mean "
                f"{LARGEST_RATIO:g}, relative kernel variance {LARGEST_FLUCTUATION:g}). {self.words}",
                stacklevel=4,
            )
