"""Cuts in a source's backup: how far each table's topics go in a cut, so that a restore can end there when its lake is gone.

A cut is kept once the backup holds it, so each one also tells how far the backup went at least.

<source>/kept-cuts/<cut>.json    written once, with the digest of what it says; no table's folder has a hyphen
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.backup.documents import no_document, read_document, write_document
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError, StoreError

_KIND = "cut"
FOLDER = "kept-cuts"
Topics = Mapping[str, Mapping[str, Any]]
"""By topic its `id`, its `epoch`, by partition the `ends`, and the `records` of the epoch up to there."""


@dataclass(frozen=True)
class KeptCut:
    """A cut as a backup has it; `made_at` in ISO 8601, `position` of the source's log, `tables` by their short names."""

    cut: str
    source: str
    made_at: str
    position: str
    tables: Mapping[str, Topics]

    def to_bytes(self) -> bytes:
        """As canonical JSON, always alike."""
        return write_document(_KIND, asdict(self), sealed=True)

    @classmethod
    def from_bytes(cls, data: bytes, *, key: str) -> KeptCut:
        """Read one.

        Raises:
            BackupError: naming the object, when it is none of this format, or not as it was written.
        """
        try:
            cut = cls(**read_document(_KIND, data, key=key, sealed=True))
        except TypeError as error:
            raise no_document(_KIND, key, error) from error
        if cut_key(cut.source, cut.cut) != key:
            raise BackupError(f"{key} holds {_KIND} {cut.cut} of {cut.source}")
        return cut


def cuts_prefix(source: str) -> str:
    """What the keys of cuts begin with."""
    return f"{source}/{FOLDER}/"


def cut_key(source: str, cut: str) -> str:
    """Of the cut of that name; names sort in the order of their times."""
    return f"{cuts_prefix(source)}{cut}.json"


def is_name_of_cut(text: str) -> bool:
    """Whether it is written as the name of a cut is: `bank-20261125T190512Z`."""
    return re.fullmatch(r"\w+-\d{8}T\d{6}Z", text) is not None


def names_of_cuts(store: ObjectStore, source: str) -> list[str]:
    """The cuts that the backup has, oldest first."""
    folder = cuts_prefix(source)
    cut_names = (item.key.removeprefix(folder).removesuffix(".json") for item in store.list(folder))
    return sorted(name for name in cut_names if is_name_of_cut(name))


def write_cuts(store: ObjectStore, source: str, cuts: Collection[KeptCut], *, oldest: str) -> int:
    """Those that the backup lacks; those whose names sort before `oldest` go. How many were written.

    Raises:
        StoreError: the store does not take it.
    """
    stored = {*names_of_cuts(store, source)}
    missing = [cut for cut in cuts if cut.cut not in stored and cut.cut >= oldest]
    written = [store.put_if_absent(cut_key(source, cut.cut), cut.to_bytes()) for cut in missing]
    for name in sorted(name for name in stored if name < oldest):
        store.delete(cut_key(source, name))
    return sum(written)


def read_cut(store: ObjectStore, source: str, cut: str) -> KeptCut:
    """That cut.

    Raises:
        BackupError: the object is not as it was written.
        StoreError: it is not there, or the store cannot be asked.
    """
    key = cut_key(source, cut)
    return KeptCut.from_bytes(store.get(key), key=key)


def verify_cuts(store: ObjectStore, source: str) -> tuple[str, ...]:
    """What is wrong with them; empty: nothing."""
    return tuple(_differences(store, source))


def _differences(store: ObjectStore, source: str) -> Iterator[str]:
    for item in store.list(cuts_prefix(source)):
        if not is_name_of_cut(item.key.removeprefix(cuts_prefix(source)).removesuffix(".json")):
            yield f"{item.key} is no cut of a backup"
            continue
        try:
            KeptCut.from_bytes(store.get(item.key), key=item.key)
        except (BackupError, StoreError) as error:
            yield str(error)
