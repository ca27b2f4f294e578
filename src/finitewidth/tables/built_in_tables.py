"""Data sets that come with scikit-learn, by name."""

import numpy as np

from finitewidth.tables.table import Table

BUILT_IN = ("breast_cancer", "diabetes", "digits", "iris", "wine")
# Columns of these are of one kind and one unit, such as pixels.
COMMON_SCALE = ("digits",)


def built_in_table(name: str) -> Table:
    """The table of one of these names; its last column is the target."""
    from sklearn import datasets

    raw = {"scaled": False} if name == "diabetes" else {}
    bunch = getattr(datasets, f"load_{name}")(**raw)
    columns = {str(f): np.asarray(c, float) for f, c in zip(bunch.feature_names, bunch.data.T, strict=True)}
    if name == "diabetes":
        target = np.asarray(bunch.target, float)
    else:
        target = np.array([str(bunch.target_names[i]) for i in bunch.target], object)
    return Table(name, {**columns, "target": target}, "target")
