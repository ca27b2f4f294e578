"""Networks trained from starts of many scales, and beside their linearisation."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.lazy_training.networks.initial_scales import (
        ScaleSweep,
        Task,
        teacher_task,
        train_at_scales,
    )
    from finitewidth.course.lazy_training.networks.linearised_path import LinearisedPath, linearised_path

__all__, __getattr__ = exports(__name__, __file__)
