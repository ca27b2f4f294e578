"""The pages of the lab, in the order of the course: one module each, with its `PAGE`."""

import importlib
import importlib.util

_HOME = {
    "regions": "linear_regions",
    "bias": "implicit_bias",
    "collapse": "loss_landscape",
    "modes": "tangent_kernel",
    "edge": "large_learning_rates",
    "lazy": "lazy_training",
    "wide": "the_wide_limit",
    "phase": "criticality",
    "bands": "trained_networks",
    "finite": "finite_width_at_initialisation",
    "catapult": "large_learning_rates",
    "nearly_kernel": "nearly_kernel_methods",
}
COURSE = (
    "phase",
    "wide",
    "modes",
    "bands",
    "finite",
    "nearly_kernel",
    "lazy",
    "catapult",
    "edge",
    "bias",
    "collapse",
    "regions",
)
PAGES = {
    page.slug: page
    for page in (
        importlib.import_module(f"finitewidth.course.{_HOME[name]}.pages.{name}").PAGE
        for name in COURSE
        if importlib.util.find_spec(f"finitewidth.course.{_HOME[name]}.pages.{name}")
    )
}
