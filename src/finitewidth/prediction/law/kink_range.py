r"""Where the correction of order $n^{-1/2}$ can be trusted.

What follows it is of order 1/n and has no theory. In trained networks with one hidden layer and without a
ridge it was about $4/\sqrt n$ of the correction: half of it at width 64, a fifth at 256, a tenth at 1,024.
"""

import warnings

import equinox as eqx
import numpy as np
from jaxtyping import Float

# What follows the correction is a tenth of it, or a little more, from here on.
CLEAN_WIDTH = 1024
CLEAN_RATIO = 0.02
# Past this the next order is as likely to matter as this one.
LARGEST_RATIO = 0.1


class KinkRange(eqx.Module):
    """How small the correction of order n^(-1/2) is.

    Attributes
    ----------
    width
        Width n of the last hidden layer.
    ratio
        Correction over mean, as root mean squares over test points.
    trusted_width
        From this width on the correction can be trusted to ten or twenty per cent of itself.
    """

    width: int = eqx.field(static=True)
    ratio: float = eqx.field(static=True)
    trusted_width: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        hidden: tuple[int, ...],
        mean: Float[np.ndarray, "test out"],
        coefficient: Float[np.ndarray, "test out"],
    ) -> "KinkRange":
        """From the infinite-width mean and the coefficient of n^(-1/2)."""
        n = hidden[-1]
        size = lambda a: float(np.sqrt(np.mean(np.square(a))))
        ratio = size(coefficient) / size(mean) if size(mean) > 0 else np.inf
        needed = max(float(CLEAN_WIDTH), (ratio / CLEAN_RATIO) ** 2)
        return cls(n, ratio / n**0.5, int(np.ceil(min(needed, 1e15))))

    @property
    def small(self) -> bool:
        """Whether the correction is below the limit past which a warning is given."""
        return self.ratio <= LARGEST_RATIO

    @property
    def words(self) -> str:
        """One sentence for a report."""
        number = (
            f"At width {self.width} the correction of order 1/sqrt(width) is {self.ratio:.2g} of the mean"
        )
        if self.width >= self.trusted_width:
            return f"{number}: it can be trusted here to ten or twenty per cent of itself."
        return f"{number}: from width {self.trusted_width} on it can be trusted to ten or twenty per cent."

    def warn(self) -> None:
        """Warn when the correction is not small."""
        if not self.small:
            warnings.warn(
                f"the expansion in 1/sqrt(width) is not small on this data (limit: correction/mean "
                f"{LARGEST_RATIO:g}). {self.words}",
                stacklevel=4,
            )
