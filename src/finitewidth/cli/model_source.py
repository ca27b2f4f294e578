"""The user's own network: made by a factory of theirs, with the weights of a checkpoint."""

from typing import Any, NamedTuple

from finitewidth._base.outside import in_short, outside

WRITTEN = "module:factory or path/to/file.py:factory"


class Source(NamedTuple):
    """A model, and its weights where the model does not carry them."""

    model: Any
    params: Any = None


def load_model(source: str) -> Source:
    """Call the factory that `source` names; it returns a model, or a pair of a model and its weights."""
    factory = outside(source, "MODEL", WRITTEN, "factory")
    if not any((callable(factory), isinstance(factory, tuple))):
        raise ValueError(f"{source} is no function: it must be one that makes the model.")
    made = factory
    if _makes_models(factory):
        try:
            made = factory()
        except Exception as error:
            raise ValueError(f"the factory {source} raised {in_short(error)}.") from error
    model, params = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if model is None:
        raise ValueError(f"the factory {source} returned nothing; it must return the model.")
    return Source(model, params)


def _makes_models(factory: Any) -> bool:
    """Whether this is to be called; a model that stands in the module is taken as it is."""
    if isinstance(factory, type):
        return True
    libraries = {kind.__module__.partition(".")[0] for kind in type(factory).__mro__}
    return callable(factory) and not libraries & {"torch", "flax", "equinox"}
