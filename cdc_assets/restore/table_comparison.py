"""Two Delta tables, row by row, by delta-rs: a reader that has written neither of them.

Rows are counted by their values, so that of equal rows (a table without a key) each has to be there as often. In slices, by the
end of a row's position, which an equal row has as well: what is compared at a time fits into memory.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cdc_assets.errors import RestoreError
from cdc_assets.resources import delta_rows
from spark.delta.delta_rs import open_delta
from spark.delta.identifiers import double_quote, text_literal

_SLICE_ROWS = 500_000
_DIGITS = "0123456789abcdef"
_SHOWN = 3
_POSITION = "_cdc_position"


@dataclass(frozen=True)
class TablesCompared:
    """Rows of the first; rows that only one of them has; columns of only one, and some rows as texts."""

    rows: int
    only_first: int = 0
    only_second: int = 0
    columns: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return not (self.only_first or self.only_second or self.columns)


def compare_tables(first: tuple[str, int], second: tuple[str, int], *, leave_out: Collection[str] = ()) -> TablesCompared:
    """Each is a path and a version. Values of the columns in `leave_out` are not compared; that both have them is.

    Raises:
        RestoreError: delta-rs reads one of them not at all.
    """
    import pyarrow as pa
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    tables = [open_delta(path, version=version) for path, version in (first, second)]
    for (path, _), table in zip((first, second), tables, strict=True):
        if unread := delta_rows.unread_features(table):
            raise RestoreError(f"{path} cannot be compared: delta-rs does not read {', '.join(unread)}; cdc reconcile can")
    names = [[field.name for field in table.schema().fields] for table in tables]
    columns = [name for name in names[0] if name in names[1] and name not in leave_out]
    asked = QueryBuilder().register("a", tables[0]).register("b", tables[1])
    try:
        rows = delta_rows.count_where(tables[0], "true") or 0
        only, examples = [0, 0], list[str]()
        for where in _slices(rows, _POSITION in columns):
            for number, (mine, other) in enumerate((("a", "b"), ("b", "a"))):
                found = pa.table(asked.execute(_difference(columns, where, mine, other)).read_all())
                only[number] += sum(found["_cdc_count"].to_pylist())
                examples += [f"{mine}: {row}" for row in found.slice(0, _SHOWN - len(examples) // 2).to_pylist()]
    except (DeltaError, FileNotFoundError, OSError) as error:
        raise RestoreError(f"{first[0]} at version {first[1]} cannot be compared: {str(error)[:300]}") from error
    apart = tuple(sorted(set(names[0]) ^ set(names[1])))
    return TablesCompared(rows, only[0], only[1], apart, tuple(examples))


def _slices(rows: int, has_position: bool) -> list[str]:
    """Conditions that each row meets one of."""
    if rows <= _SLICE_ROWS or not has_position:
        return ["true"]
    digits = 1 if rows <= 16 * _SLICE_ROWS else 2
    ends = list(_DIGITS) if digits == 1 else [high + low for high in _DIGITS for low in _DIGITS]
    end = f"right(coalesce({double_quote(_POSITION)}, ''), {digits})"
    listed = ", ".join(text_literal(each) for each in ends)
    return [*(f"{end} = {text_literal(each)}" for each in ends), f"{end} NOT IN ({listed})"]


def _difference(columns: list[str], where: str, mine: str, other: str) -> str:
    listed = ", ".join(double_quote(name) for name in columns)

    def count(table: str) -> str:
        return f"SELECT {listed}, count(*) AS _cdc_count FROM {table} WHERE {where} GROUP BY {listed}"

    return f"{count(mine)} EXCEPT {count(other)}"
