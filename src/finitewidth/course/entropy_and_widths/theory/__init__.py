"""How complex a class is: balls that cover it, numbers that describe it stably, and maps that prove it."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.entropy_and_widths.theory.embedding import (
        Embedding,
        embed,
        embedding_dimension,
        linear_contraction_dimension,
    )
    from finitewidth.course.entropy_and_widths.theory.entropy import (
        EntropyBounds,
        ball_entropy,
        cube_entropy,
        ellipsoid_entropy,
        interval_entropy,
        lipschitz_centres,
        lipschitz_entropy,
        lipschitz_packing,
    )
    from finitewidth.course.entropy_and_widths.theory.extension import Extension, extend, image_within
    from finitewidth.course.entropy_and_widths.theory.finite_sets import (
        Cover,
        farthest_points,
        finite_entropy,
        smallest_cover,
    )
    from finitewidth.course.entropy_and_widths.theory.networks import NetworkClass, network_class
    from finitewidth.course.entropy_and_widths.theory.stable_widths import (
        EntropyAtIndex,
        StableCode,
        entropy_from_stable_width,
        stable_code,
    )

__all__, __getattr__ = exports(__name__, __file__)
