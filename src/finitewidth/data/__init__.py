"""Tables of data: one reader for every format, and the way from columns to inputs of a network."""

from finitewidth.data.built_in_tables import BUILT_IN
from finitewidth.data.inputs import Inputs, inputs_of
from finitewidth.data.preparation import Preparation
from finitewidth.data.reading import read_table
from finitewidth.data.sets import DataSet, built_in
from finitewidth.data.table import Table

__all__ = [
    "BUILT_IN", "DataSet", "Inputs", "Preparation", "Table", "built_in", "inputs_of", "read_table",
]  # fmt: skip
