"""Columns as inputs of a network: how each one enters, fitted to the training rows and kept for new rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.tables.columns import LeftOut, Numbers, Part, Words, treatment
from finitewidth.tables.table import Column, Table, refuse_infinite

# Squares of larger inputs, summed up in kernels, would overflow.
_FARTHEST = 1e100

Scale = Literal["column", "common", "none"]


class ColumnNote(NamedTuple):
    """What was done to one column: its kind, the sentence, and how many inputs it became."""

    column: str
    done: str
    inputs: int


@dataclass(frozen=True)
class Preparation:
    """The way from the columns of a table to the inputs of a network.

    Attributes
    ----------
    parts
        One for every column of the training table, in its order.
    mean, unit
        An input is (raw value - mean) / unit.
    """

    parts: tuple[Part, ...]
    mean: Float[np.ndarray, " d"]
    unit: Float[np.ndarray, " d"]

    @classmethod
    def fit(cls, table: Table, scale: Scale = "column", index: str | None = None) -> "Preparation":
        """Decide by these rows how every column enters; all columns but the index are inputs.

        `scale` "column" gives every column the total variance one, "common" divides all by one factor, and
        "none" leaves them as they are.
        """
        refuse_infinite(table, index)
        keep_constant = scale != "column"
        parts = tuple(
            LeftOut(name, "index of the rows, left out")
            if name == index
            else treatment(name, column, keep_constant)
            for name, column in table.columns.items()
        )
        used = [part for part in parts if not isinstance(part, LeftOut)]
        if not used and not all(isinstance(part, LeftOut) and part.constant for part in parts):
            done = "; ".join(f"{part.column!r}: {part.done}" for part in parts[:3])
            raise ValueError(f"no column of {table.name} can be an input ({done}).")
        extreme = [part for part in used if isinstance(part, Numbers) and part.power]
        if extreme and scale != "column":
            raise ValueError(
                f"column {extreme[0].column!r} of {table.name} holds numbers of size {extreme[0].size}, "
                "which only a scale of its own brings to size 1: change its unit, or take --scale column."
            )
        raws = [part.raw(table.columns[part.column]) for part in used]
        raw = np.concatenate(raws, axis=1) if used else np.empty((table.rows, 0))
        if not raw.std(axis=0).any():
            raise ValueError(
                f"every feature of {table.name} is constant over the {table.rows} training rows."
            )
        if scale == "none":
            return cls(parts, np.zeros(raw.shape[1]), np.ones(raw.shape[1]))
        if scale == "common":
            unit = np.full(raw.shape[1], np.sqrt(raw.var(axis=0).mean()))
        else:
            unit = np.concatenate([part.units(values) for part, values in zip(used, raws, strict=True)])
        return cls(parts, raw.mean(axis=0), unit)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(name for part in self.parts for name in part.names)

    @property
    def notes(self) -> tuple[ColumnNote, ...]:
        """What was done to each column."""
        return tuple(ColumnNote(part.column, part.done, len(part.names)) for part in self.parts)

    def apply(self, table: Table) -> Float[np.ndarray, "rows d"]:
        """Inputs of a network from a table with the same columns; others are not looked at."""
        refuse_infinite(table._replace(columns={p.column: v for p, v in self._used(table)}))
        raw = [part.raw(values) for part, values in self._used(table)]
        inputs = (np.concatenate(raw, axis=1) - self.mean) / self.unit
        far = ~(np.abs(inputs) <= _FARTHEST)
        if far.any():
            row, place = np.argwhere(far)[0]
            raise ValueError(
                f"row {row + 1} of {table.name} lies more than {_FARTHEST:g} standard deviations of the "
                f"training rows away in {self.names[place]!r}: correct it or leave it out."
            )
        return inputs

    def _used(self, table: Table) -> Iterator[tuple[Numbers | Words, Column]]:
        """The columns that are inputs, each with its values in this table."""
        for part in self.parts:
            if isinstance(part, LeftOut):
                continue
            if part.column not in table.columns:
                raise ValueError(f"{table.name} has no column {part.column!r}, which the training table has.")
            yield part, part.matched(table.columns[part.column], table.name)

    def about(self, table: Table) -> list[str]:
        """Sentences about new rows: unknown words, gaps where training had none, columns without use."""
        sentences = [said for part, values in self._used(table) for said in part.about(values, table.name)]
        known = {part.column for part in self.parts}
        extra = [name for name in table.columns if name not in known]
        if extra:
            more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
            sentences.append(
                f"column {extra[0]!r}{more} of {table.name} is not in the training table: not used."
            )
        return sentences
