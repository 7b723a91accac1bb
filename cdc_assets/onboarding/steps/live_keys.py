"""Which keys have a row by a topic's records, and which rows of a snapshot are older than a change before them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.connectors.unchanged_value import says_unchanged


@dataclass
class LiveKeys:
    """Which keys have a row: the last event of a key decides.

    A key whose events all lie before this onboarding has none: its snapshot read the whole table, so the row was deleted while
    the table was not captured, and no event says so.

    Rows of a temporary connector come between changes that are newer than they are: such a row counts where its key
    has no change (spark.bronze.drafts does the same by position).
    """

    alive: set[bytes] = field(default_factory=set)
    gone: set[bytes] = field(default_factory=set)
    anchored: set[bytes] = field(default_factory=set)
    fresh: set[bytes] = field(default_factory=set)
    born_later: set[bytes] = field(default_factory=set)
    truncated: bool = False

    def came(self, op: str, key: bytes, *, visible: bool) -> None:
        """An event of it since this onboarding began; one that the count does not see tells whether there was a row by then."""
        if visible or (op in "ud" and key not in self.born_later):
            self.fresh.add(key)
        elif op == "c" and key not in self.fresh:
            self.born_later.add(key)

    def see(self, op: str, key: bytes, *, anchored: bool, own: bool) -> None:
        """`own`: it came into the topic since this onboarding began."""
        if anchored:
            self.anchored.add(key)
        elif op == "t":
            self.alive.clear()
            self.gone.clear()
            self.truncated = own
        elif op == "d":
            self.alive.discard(key)
            if own:
                self.gone.add(key)
        elif op in "rcu":
            self.alive.add(key)
            self.gone.discard(key)

    def live(self) -> set[bytes]:
        """The keys that have a row."""
        return self._remaining_keys() & self.fresh

    def keys_without_row(self) -> set[bytes]:
        """The keys whose row was deleted while nobody captured the table."""
        return self._remaining_keys() - self.fresh

    def _remaining_keys(self) -> set[bytes]:
        return self.alive if self.truncated else self.alive | (self.anchored - self.gone)


@dataclass
class StaleRows:
    """Keys whose last record is a snapshot's row that does not hold the change sent before it.

    PostgreSQL writes a commit into its log before others see it: between the two lies a flush, or an answer of a synchronous
    standby. A change that is streamed in that moment is not in a row that is read in it, and the row comes behind the
    change. A row that is right holds that change, or a later one, which then follows it.
    """

    said: dict[bytes, Mapping[str, Any] | bytes | None] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)

    def see(self, op: str, key: bytes, after: Mapping[str, Any] | None) -> None:
        """A record that came since the onboarding began, in the order of its partition."""
        if op == "t":
            self.said.clear()
            self.keys.clear()
        elif op == "r":
            stale = key in self.said and not _same(self.said[key], after)
            (self.keys.add if stale else self.keys.discard)(key)
        elif op in "cud":
            self.said[key] = _digest_if_whole(after)
            self.keys.discard(key)


def _digest_if_whole(after: Mapping[str, Any] | None) -> Mapping[str, Any] | bytes | None:
    """A digest, where every column is there."""
    return after if after is None or any(map(says_unchanged, after.values())) else _digest(after)


def _same(said: Mapping[str, Any] | bytes | None, row: Mapping[str, Any] | None) -> bool:
    if isinstance(said, bytes):
        return row is not None and said == _digest(row)
    if said is None or row is None:
        return said is row
    return all(row.get(name) == value for name, value in said.items() if not says_unchanged(value))


def _digest(row: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(repr(sorted(row.items())).encode(), digest_size=12).digest()
