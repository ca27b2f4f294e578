"""Laws, networks and results in files: `save` and `load`.

A file is an NPZ archive: one member of JSON text, `finitewidth.json`, with every setting, and one .npy member
for every array, bit by bit as it was. Nothing in it is executed: loading makes objects of the classes listed
here and of no others.
"""

import dataclasses
import importlib
import importlib.metadata
import inspect
import io
import json
import math
import os
import zipfile
from pathlib import Path
from types import UnionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import jaxtyped

from finitewidth._base.whole_files import whole_file
from finitewidth.architecture.activations import Activation, as_activation

FORMAT = 1
_TEXT = "finitewidth.json"
# Name in files, and module; with a colon the name that the class has there, where two share one.
_CLASSES = {
    "MLP": "finitewidth.architecture.mlp",
    "Dense": "finitewidth.architecture.dense",
    "Activate": "finitewidth.architecture.activate",
    "Sequential": "finitewidth.architecture.sequential",
    "Repeat": "finitewidth.architecture.sequential",
    "Conv": "finitewidth.architecture.convolution",
    "AveragePool": "finitewidth.architecture.pooling",
    "GlobalAveragePool": "finitewidth.architecture.pooling",
    "Flatten": "finitewidth.architecture.pooling",
    "SelfAttention": "finitewidth.architecture.attention",
    "Residual": "finitewidth.architecture.residual",
    "LayerNorm": "finitewidth.architecture.normalisation",
    "RMSNorm": "finitewidth.architecture.normalisation",
    "Scale": "finitewidth.architecture.scale",
    "Dropout": "finitewidth.architecture.dropout",
    "Sum": "finitewidth.architecture.sums",
    "Product": "finitewidth.architecture.product",
    "Concat": "finitewidth.architecture.concat",
    "NTK": "finitewidth.architecture.parametrisation",
    "Standard": "finitewidth.architecture.parametrisation",
    "MeanField": "finitewidth.architecture.parametrisation",
    "MaximalUpdate": "finitewidth.architecture.parametrisation",
    "GradientDescent": "finitewidth.algorithms.gradient_descent",
    "GradientFlow": "finitewidth.algorithms.gradient_flow",
    "DirectOptimization": "finitewidth.algorithms.direct_optimization",
    "BayesianInference": "finitewidth.prediction.law.methods",
    "ByNumberOfPoints": "finitewidth.prediction.methods.first_order.choice",
    "DenseTensors": "finitewidth.prediction.methods.first_order.dense.method",
    "SampledNeurons": "finitewidth.prediction.methods.first_order.sampled.method",
    "KinkWindows": "finitewidth.prediction.methods.kinks.method",
    "TrainedNetworks": "finitewidth.verification.trained_networks",
    "MeanFieldMethod": "finitewidth.prediction.methods.mean_field.method:MeanField",
    "TrainedDistribution": "finitewidth.prediction.law.distribution",
    "Correction": "finitewidth.prediction.law.correction",
    "Origins": "finitewidth.prediction.law.correction",
    "ExpansionRange": "finitewidth.prediction.law.expansion_range",
    "KinkRange": "finitewidth.prediction.law.kink_range",
    "NumericalError": "finitewidth.prediction.law.numerical_error",
    "Provenance": "finitewidth.prediction.law.provenance",
    "TrainingProblem": "finitewidth.prediction.problem.training_problem",
    "LossCurves": "finitewidth.prediction.methods.infinite_width.curves",
    "Corrections": "finitewidth.statistics.first_order.corrections",
    "Differentials": "finitewidth.statistics.first_order.differentials",
    "MeasuredCurves": "finitewidth.verification.result",
    "Verification": "finitewidth.verification.result",
}


def _home(name: str) -> tuple[str, str]:
    """Module and class that a name in a file stands for."""
    module, _, own_name = _CLASSES[name].partition(":")
    return module, own_name or name


_NAMES = {_home(name): name for name in _CLASSES}
# What reading a file with flipped bytes raises.
_DAMAGE = (
    zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError, IndexError, EOFError, OSError,
    NotImplementedError, RecursionError, MemoryError, RuntimeError,
)  # fmt: skip


class _NewerFormatError(ValueError):
    """A file of a later version."""


def save(thing: object, path: str | os.PathLike) -> Path:
    """Write one object into one file; a file of that name is replaced once the new one is complete."""
    arrays: dict[str, np.ndarray] = {}
    described = _described(thing, "", arrays)
    text = {
        "format": FORMAT,
        "versions": versions(),
        "content": described,
    }
    with whole_file(_target(path)) as file:
        _write(file, json.dumps(text, indent=1, allow_nan=False), arrays)
    return Path(path)


def load(path: str | os.PathLike) -> Any:
    """What `save` wrote: a law, a network, corrections or a verification, with which everything can be done.

    Parameters
    ----------
    path
        File that the `save` of one of these wrote. Nothing in it is executed, so files of strangers are safe.

    Examples
    --------
    >>> import os, tempfile, finitewidth as fw
    >>> path = os.path.join(tempfile.mkdtemp(), "net.npz")
    >>> _ = fw.MLP(hidden=(64, 64), activation="gelu").save(path)
    >>> fw.load(path).hidden
    (64, 64)
    """
    _check_path(path)
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a directory; load needs a file that save wrote.")
    if not place.exists():
        raise FileNotFoundError(f"there is no file {place}.")
    try:
        archive = zipfile.ZipFile(place)
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise ValueError(f"{place} is cut short, or no file that the save of finitewidth wrote.") from None
    with archive:
        if _TEXT not in archive.namelist():
            raise ValueError(f"{place} was not written by the save of finitewidth: it has no {_TEXT}.")
        try:
            text, arrays = _read(archive)
            _refuse_newer(place, text)
            return _made(text["content"], arrays)
        except _NewerFormatError:
            raise
        except _DAMAGE as error:
            raise ValueError(f"{place} is damaged: {_words(error)}") from None


def versions() -> dict[str, str]:
    """Of this package and of those that decide about its numbers."""
    return {name: _version(name) for name in ("finitewidth", "jax", "numpy")}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _check_path(path: object) -> None:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file, got {path!r}.")


def _target(path: str | os.PathLike) -> Path:
    """Where to write, links followed; says at once why nothing can be written there."""
    _check_path(path)
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; save needs the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {target.parent} to save {target.name} in.")
    return target


def _described(value: Any, where: str, arrays: dict[str, np.ndarray]) -> Any:
    """The value in terms of JSON; arrays go to `arrays` under the name of the place where they stand."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else {"number": repr(float(value))}
    if isinstance(value, Activation):
        if not value.built_in:
            raise ValueError(
                f"{where} is the function {value.name!r}; a file holds built-in activations only, by their "
                "names: use cloudpickle for a function of your own."
            )
        return {"activation": value.name}
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        arrays[where] = np.asarray(jax.random.key_data(value))
        return {"key": where, "kind": str(jax.random.key_impl(value))}
    if isinstance(value, jax.Array | np.ndarray):
        arrays[where] = np.asarray(value)
        kind = {"dtype": arrays[where].dtype.str, "shape": list(arrays[where].shape)}
        return {"array": where, "of": "jax" if isinstance(value, jax.Array) else "numpy"} | kind
    name = _NAMES.get((type(value).__module__, type(value).__name__))
    if name is not None:
        places = {field: f"{where}.{field}".lstrip(".") for field in _fields(value)}
        fields = {field: _described(getattr(value, field), at, arrays) for field, at in places.items()}
        return {"class": name, "fields": fields}
    if type(value) is tuple:
        return {"tuple": [_described(entry, f"{where}[{k}]", arrays) for k, entry in enumerate(value)]}
    named = f"{type(value).__module__}.{type(value).__name__}"
    raise TypeError(f"{where or 'this'} is a {named}, which cannot be saved.")


def _fields(value: Any) -> tuple[str, ...]:
    """What the class must be given to make this object again."""
    return tuple(inspect.signature(type(value)).parameters)


def _made(described: Any, members: dict[str, np.ndarray]) -> Any:
    """The value that `_described` put into terms of JSON."""
    if not isinstance(described, dict):
        return described
    if "number" in described:
        return float(described["number"])
    if "activation" in described:
        return as_activation(described["activation"])
    if "key" in described:
        return jax.random.wrap_key_data(jnp.asarray(members[described["key"]]), impl=described["kind"])
    if "array" in described:
        array = members[described["array"]]
        _refuse_other(described, array)
        return jnp.asarray(array) if described["of"] == "jax" else array
    if "tuple" in described:
        return tuple(_made(entry, members) for entry in described["tuple"])
    name = described["class"]
    if name not in _CLASSES:
        raise ValueError(f"it holds an object {name!r} that this version of finitewidth does not know.")
    module, own_name = _home(name)
    kind = getattr(importlib.import_module(module), own_name)
    made = {field: _made(entry, members) for field, entry in described["fields"].items()}
    arguments = inspect.signature(kind).parameters.values()
    _refuse_misplaced(kind, made)
    listed = [made.pop(argument.name) for argument in arguments if argument.kind is argument.VAR_POSITIONAL]
    return kind(*(listed[0] if listed else ()), **made)


def _write(file: Any, text: str, arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        # Without a time of writing, equal objects make equal files.
        archive.writestr(zipfile.ZipInfo(_TEXT), text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _refuse_other(described: dict[str, Any], array: np.ndarray) -> None:
    """Refuse an array that is not of the type and shape of the one that was saved."""
    saved = described.get("dtype", array.dtype.str), tuple(described.get("shape", array.shape))
    if (array.dtype.str, array.shape) != saved:
        raise ValueError(
            f"{described['array']} is an array of type {array.dtype.str} and shape {array.shape}, and was "
            f"saved with type {saved[0]} and shape {saved[1]}."
        )


def _refuse_misplaced(kind: type, made: dict[str, Any]) -> None:
    """Refuse arrays whose axes contradict each other, such as a mean in the place of a covariance."""
    types = (
        {field.name: field.type for field in dataclasses.fields(kind)}
        if dataclasses.is_dataclass(kind)
        else {}
    )
    with jaxtyped("context"):
        for name, value in made.items():
            expected = types.get(name)
            if not isinstance(value, jax.Array | np.ndarray) or not isinstance(expected, type | UnionType):
                continue
            if not isinstance(value, expected):
                raise ValueError(
                    f"{name} has type {value.dtype} and shape {value.shape}, which does not fit the rest of "
                    f"the {kind.__name__}."
                )


def _read(archive: zipfile.ZipFile) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The text and the arrays of a file, every checksum compared.

    Nothing is read that takes more memory than the file takes on disk.
    """
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("its members are compressed, and those that save writes are not.")
    assert archive.fp is not None
    if sum(member.file_size for member in members) > os.fstat(archive.fp.fileno()).st_size:
        raise ValueError("its members are larger than the file.")
    text = json.loads(archive.read(_TEXT))
    arrays = {m.filename.removesuffix(".npy"): _array(archive, m) for m in members if m.filename != _TEXT}
    return text, arrays


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{member.filename} is in a format that save does not write.")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{member.filename} is not of the size that its header states.")
    return np.lib.format.read_array(io.BytesIO(archive.read(member)), allow_pickle=False)


def _refuse_newer(place: Path, text: dict[str, Any]) -> None:
    if text["format"] > FORMAT:
        raise _NewerFormatError(
            f"{place} was saved by finitewidth {text['versions']['finitewidth']} in format {text['format']}; "
            f"this version reads formats up to {FORMAT}: install a newer finitewidth."
        )


def _words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing in it."
    return f"{str(error).rstrip('.')}."
