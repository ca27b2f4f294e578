"""Columns as inputs of a network: numbers, indicators of words, and their scales."""

import difflib
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finitewidth.study.tables import Table

_MOST_NAMES = 12


def chosen_target(table: Table, asked: str | None) -> str:
    """The column to predict."""
    target = table.target if asked is None else asked
    if target is None:
        raise ValueError(f"say which column of {table.name} to predict with --target: {_listed(table)}.")
    if target not in table.columns:
        close = difflib.get_close_matches(target, table.columns, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{table.name} has no column {target!r}.{hint} It has {_listed(table)}.")
    if len(table.columns) < 2:
        raise ValueError(
            f"{table.name} has one column only, {target!r}: there is nothing to predict it from."
        )
    return target


def _listed(table: Table) -> str:
    names = list(table.columns)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def complete(
    table: Table, rows: Int[np.ndarray, " rows"], drop: bool, notes: list[str]
) -> tuple[Table, np.ndarray]:
    """The rows in which nothing is missing; refuse to drop the others unless asked."""
    gaps = table.missing()
    if not gaps.any():
        return table, rows
    count = f"{gaps.sum()} of {table.rows} rows of {table.name}"
    if not drop:
        raise ValueError(
            f"{count} have missing or infinite values, first row {rows[np.argmax(gaps)]}: "
            "add --drop-missing to leave them out."
        )
    notes.append(f"{count} have missing or infinite values and were left out.")
    return table.take(~gaps), rows[~gaps]


class _Encoded(NamedTuple):
    """One column as it enters: a number (no words), or one indicator for each word."""

    column: str
    words: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [f"{self.column}={word}" for word in self.words] if self.words else [self.column]

    def apply(self, table: Table) -> Float[np.ndarray, "rows parts"]:
        values = table.columns[self.column]
        if not self.words:
            if values.dtype.kind != "f":
                raise ValueError(
                    f"column {self.column!r} holds words in {table.name} and numbers in training."
                )
            return values[:, None]
        if values.dtype.kind == "f":
            raise ValueError(f"column {self.column!r} holds numbers in {table.name} and words in training.")
        return (values[:, None] == np.array(self.words)).astype(float)


class Features(NamedTuple):
    """How the columns of a table become inputs; everything is fitted to the training rows."""

    encoded: tuple[_Encoded, ...]
    kept: Int[np.ndarray, " d"]
    mean: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    names: tuple[str, ...]

    @classmethod
    def of(
        cls, table: Table, target: str, scale: str, one_hot: bool, drop_constant: bool, notes: list[str]
    ) -> "Features":
        """Choose and scale the features of the training table."""
        encoded = tuple(_encode(table, name, one_hot) for name in table.columns if name != target)
        raw = np.concatenate([part.apply(table) for part in encoded], axis=1)
        names = [name for part in encoded for name in part.names]
        spread = raw.std(axis=0)
        constant = spread <= 1e-12 * np.maximum(1.0, np.abs(raw).max(axis=0))
        kept = np.arange(len(names))
        if constant.all():
            raise ValueError(f"every feature of {table.name} is constant over the {len(raw)} training rows.")
        if constant.any() and (scale == "column" or drop_constant):
            which = [names[i] for i in np.flatnonzero(constant)]
            first = (
                f"column {which[0]!r} is constant, {raw[0, names.index(which[0])]:g} in every training row"
            )
            others = f" ({len(which)} such columns)" if len(which) > 1 else ""
            if not drop_constant:
                raise ValueError(
                    f"{first}{others}, and cannot be standardised: remove it, add --drop-constant, "
                    "or scale all columns alike with --scale common."
                )
            notes.append(f"{first}{others}, and was left out.")
            kept = np.flatnonzero(~constant)
        mean, unit = _scales(raw[:, kept], scale)
        return cls(encoded, kept, mean, unit, tuple(names[i] for i in kept))

    def apply(self, table: Table) -> Float[np.ndarray, "rows d"]:
        """Inputs of a network."""
        raw = np.concatenate([part.apply(table) for part in self.encoded], axis=1)
        return (raw[:, self.kept] - self.mean) / self.scale

    def unseen(self, table: Table) -> str | None:
        """A sentence about words that no training row holds."""
        for part in self.encoded:
            new = np.setdiff1d(table.columns[part.column], part.words) if part.words else np.empty(0)
            if len(new):
                return f"column {part.column!r} holds {str(new[0])!r} in test rows only; it counts as none."
        return None


def _encode(table: Table, name: str, one_hot: bool) -> _Encoded:
    values = table.columns[name]
    if values.dtype.kind == "f":
        return _Encoded(name, ())
    words = np.unique(values)
    if not one_hot:
        raise ValueError(
            f"column {name!r} is not numeric; it holds {len(words)} different words, such as "
            f"{str(words[0])!r}: remove it, or add --one-hot to give each word an input of its own."
        )
    return _Encoded(name, tuple(str(word) for word in words))


def _scales(raw: Float[np.ndarray, "rows d"], scale: str) -> tuple[np.ndarray, np.ndarray]:
    columns = raw.shape[1]
    if scale == "none":
        return np.zeros(columns), np.ones(columns)
    if scale == "common":
        return raw.mean(axis=0), np.full(columns, np.sqrt(raw.var(axis=0).mean()))
    return raw.mean(axis=0), raw.std(axis=0)
