"""Tables of data: one reader for every format, and the way from columns to inputs of a network."""

from finitewidth.tables.built_in_tables import BUILT_IN
from finitewidth.tables.inputs import Inputs, inputs_of
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.reading import read_table
from finitewidth.tables.sets import DataSet, built_in
from finitewidth.tables.table import Table

__all__ = [
    "BUILT_IN", "DataSet", "Inputs", "Preparation", "Table", "built_in", "inputs_of", "read_table",
]  # fmt: skip
