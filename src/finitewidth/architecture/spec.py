"""A network as plain data: a list of layers, each a table of settings, from Python, JSON or TOML."""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from finitewidth._base.checks import no_file
from finitewidth.architecture.layer import Spec, as_shape
from finitewidth.architecture.parametrisation import Parametrisation
from finitewidth.architecture.sequential import Sequential
from finitewidth.architecture.vocabulary import Sizes, read_layers

_SETTINGS = ("layers", "parametrisation", "width", "n_out")
_WIDTH = 128


def network(
    spec: Spec | Mapping[str, Any] | str | os.PathLike,
    *,
    width: int | None = None,
    n_out: int | None = None,
    parametrisation: str | Parametrisation | None = None,
) -> Sequential:
    r"""A network from plain data.

    Parameters
    ----------
    spec
        A list of layers, each a table with its name under "layer" and its settings; or a table with that
        list under "layers" and, beside it, any of the settings below; or the name of a TOML or JSON file
        that holds such a table. `lambda_W` and `lambda_b` that are left out are C_W and C_b.
    width, n_out
        Channels of layers that do not give their own: the last layer has `n_out` (1 by default), all
        others `width` (128 by default). Kernels do not depend on them.
    parametrisation
        How variances and rates scale with width, "ntk" by default.

    Returns
    -------
    Sequential
        Its `spec` is the list again, every setting written out.

    Examples
    --------
    >>> import finitewidth as fw
    >>> block = {"layer": "Residual", "beta": 0.5, "body": [
    ...     {"layer": "Activation", "name": "gelu"}, {"layer": "Dense", "C_W": 2.0, "C_b": 0.0}]}
    >>> net = fw.network([{"layer": "Dense", "C_W": 1.0, "C_b": 0.0}, block, {"layer": "LayerNorm"},
    ...     {"layer": "Dense", "C_W": 1.0, "C_b": 0.0}])
    >>> [entry["layer"] for entry in net.spec]
    ['Dense', 'Residual', 'LayerNorm', 'Dense']
    """
    if isinstance(spec, str | os.PathLike):
        spec = read_spec(spec)
    table: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {"layers": spec}
    unknown = [key for key in table if key not in _SETTINGS]
    if unknown or "layers" not in table:
        what = (
            f"has no setting {', '.join(map(repr, unknown))}" if unknown else "needs layers, a list of layers"
        )
        raise ValueError(f"a network {what}. Known: {', '.join(_SETTINGS)}.")
    sizes = Sizes(
        as_shape("width", table.get("width", _WIDTH) if width is None else width)[0],
        as_shape("n_out", table.get("n_out", 1) if n_out is None else n_out)[0],
    )
    layers = read_layers(_with_outputs(table["layers"], sizes.n_out), "", sizes)
    chosen = table.get("parametrisation", "ntk") if parametrisation is None else parametrisation
    return Sequential(*layers, parametrisation=chosen)


def _with_outputs(spec: Any, n_out: int) -> Any:
    """The list of layers whose last one, if it gives no width, has the width of the outputs."""
    last = spec[-1] if isinstance(spec, list | tuple) and spec else None
    if not isinstance(last, Mapping) or last.get("layer") != "Dense" or "width" in last:
        return spec
    return [*spec[:-1], {**last, "width": n_out}]


def read_spec(path: str | os.PathLike) -> Mapping[str, Any]:
    """The table that a TOML or JSON file holds; a JSON file may hold the list of layers alone."""
    place = Path(path)
    if place.suffix not in (".toml", ".json"):
        raise ValueError(f"a network is read from a .toml or .json file, got {place}.")
    wrong = no_file(place)
    if wrong is not None:
        raise FileNotFoundError(f"{place} {wrong}.")
    try:
        read = (tomllib if place.suffix == ".toml" else json).loads(place.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{place} cannot be read: {error}.") from None
    return read if isinstance(read, Mapping) else {"layers": read}
