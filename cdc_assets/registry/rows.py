"""How a table's events become rows (docs/reference/rows.md); names as in AUTO CDC where it has one."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from cdc_assets.registry.declared import Declared
from cdc_assets.registry.row_choice import RowChoice


class Rows(Declared):
    """What rows are known by, and what events do to them.

    `keys` declares the key of a table that has none in the database. Without it such a table is appended.
    `without_key: multiset` knows rows by all of their values instead: a delete or update takes one of the equal rows away
    (PostgreSQL: REPLICA IDENTITY FULL).
    `deletes: soft` keeps deleted rows, marked by `_cdc_deleted`. `truncate` says what a TRUNCATE at the source does: empty
    the table, mark its rows deleted, nothing, or stop the table.
    The last four are for topics that others fill with parts of rows. With `ignore_null_updates` a NULL leaves the column as
    it is. It is for all columns; the two lists are for those listed, or for all but those listed. `columns_to_update` is the
    column of an event that lists which columns it is about (NULL: all of them). Both mean the same in a history.
    `where` keeps a part of the rows: those of which all conditions hold (docs/reference/rows.md).
    """

    keys: tuple[str, ...] | None = None
    without_key: Literal["append", "multiset"] = "append"
    deletes: Literal["hard", "soft"] = "hard"
    truncate: Literal["apply", "soft", "ignore", "halt"] = "apply"
    history: Literal["scd1", "scd2"] = "scd1"
    ignore_null_updates: bool = False
    ignore_null_updates_column_list: tuple[str, ...] = ()
    ignore_null_updates_except_column_list: tuple[str, ...] = ()
    columns_to_update: str | None = None
    where: tuple[RowChoice, ...] = ()

    @property
    def partial(self) -> tuple[str, ...]:
        """The settings for parts of rows that are given."""
        names = ("ignore_null_updates", "ignore_null_updates_column_list", "ignore_null_updates_except_column_list")
        return tuple(name for name in (*names, "columns_to_update") if getattr(self, name))

    @model_validator(mode="after")
    def _one_way_to_update(self) -> Rows:
        lists = [name for name in self.partial if name != "columns_to_update"]
        if len(lists) > 1:
            raise ValueError(f"give one of {', '.join(lists)}, not {len(lists)}")
        named = {*self.ignore_null_updates_column_list, *self.ignore_null_updates_except_column_list, self.columns_to_update}
        keys = sorted(named & set(self.keys or ()), key=str)
        if keys:
            raise ValueError(f"{', '.join(map(str, keys))}: a column of the key is in every event, and cannot be left as it was")
        return self

    @model_validator(mode="after")
    def _rows_can_be_chosen(self) -> Rows:
        asked = {"deletes: soft": self.deletes == "soft", "without_key: multiset": self.without_key == "multiset"}
        asked |= dict.fromkeys(self.partial, True)
        if self.where and (refused := [name for name, given in asked.items() if given]):
            raise ValueError(f"{', '.join(refused)}: where keeps whole rows of a table with a key, and drops the others")
        return self

    @model_validator(mode="after")
    def _rows_are_known(self) -> Rows:
        if self.without_key != "multiset":
            return self
        asked = {"keys": self.keys, "deletes: soft": self.deletes == "soft", "truncate: soft": self.truncate == "soft"}
        asked["history: scd2"] = self.history == "scd2"
        refused = [name for name, given in asked.items() if given]
        if refused:
            raise ValueError(
                f"{', '.join(refused)}: without_key: multiset knows rows by their values, and not which row is which"
            )
        return self
