"""The pages of the lab, in the order of the course: one module each, with its `PAGE`."""

import importlib
import importlib.util

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
        importlib.import_module(f"{__name__}.{name}").PAGE
        for name in COURSE
        if importlib.util.find_spec(f"{__name__}.{name}")
    )
}
