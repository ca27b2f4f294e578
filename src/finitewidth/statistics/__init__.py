"""Networks at initialisation: what random weights make of the inputs."""

from finitewidth.statistics.paths import NTKMoments, ntk_moments, ntk_ratio_limit

__all__ = ["NTKMoments", "ntk_moments", "ntk_ratio_limit"]
