"""The versions of a table's rows, told by plain Python from what happened at the source: no Spark, no code of the jobs.

It walks what happened in the order of the source's log, keeping each key's row: whatever order, cut or repetition the
events were delivered in, this is what the history must hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Happened:
    """One event: `op` is c, u, d or t; `note` is left out (`part`) where the event does not hold it.

    `moved_from` is the key that the row of a create had before; its delete is the event at the same place.
    `broken` events cannot be read.
    """

    place: int
    key: int
    op: str
    v: str | None = None
    note: str | None = None
    part: bool = False
    moved_from: int | None = None
    broken: bool = False


@dataclass
class Row:
    """What is known of a key: `doubt` once a broken event stands behind the last one that said everything."""

    values: tuple[str | None, str | None] | None = None
    doubt: bool = False
    open: list[Any] | None = None


@dataclass
class Oracle:
    """Versions as `(key, v, note, from, to)`; with `of_v` only changes of `v` make one."""

    of_v: bool = False
    rows: dict[int, Row] = field(default_factory=dict)
    done: list[list[Any]] = field(default_factory=list)

    def tell(self, happened: Iterable[Happened]) -> set[tuple[Any, ...]]:
        """The versions that these events, once each and in the order of the log, have made."""
        before_move: dict[int, tuple[str | None, str | None] | None] = {}
        for one in happened:
            row = self.rows.setdefault(one.key, Row())
            if one.op == "t":
                for other in self.rows.values():
                    self._end(other, one.place)
            elif one.broken:
                row.doubt = True
            elif one.op == "d":
                before_move[one.key] = None if row.doubt else row.values
                self._end(row, one.place)
                row.doubt = False
            elif one.op == "c" and one.part:
                assert one.moved_from is not None
                old = before_move.pop(one.moved_from)
                row.doubt = old is None
                if old is not None:
                    self._hold(row, one, (one.v, old[1]))
            elif one.part:
                if row.values is not None and not row.doubt:
                    self._hold(row, one, (one.v, row.values[1]))
            else:
                row.doubt = False
                self._hold(row, one, (one.v, one.note))
        return {tuple(version) for version in self.done}

    def _hold(self, row: Row, one: Happened, values: tuple[str | None, str | None]) -> None:
        same: Sequence[Any] = values[:1] if self.of_v else values
        if row.values is None or same != (row.values[:1] if self.of_v else row.values):
            self._end(row, one.place)
            row.open = [one.key, *values, one.place, None]
            self.done.append(row.open)
        else:
            assert row.open is not None
            row.open[1:3] = values
        row.values = values

    def _end(self, row: Row, place: int) -> None:
        if row.open is not None:
            row.open[4] = place
        row.open = row.values = None
