"""What names the newest object of a chain: `_newest` the newest manifest of a table, put behind it, by name and SHA-256.

    0000-00000000000000000020.json 5f70bf18a086…

Each manifest names the one before it, so that nothing but this names the newest. It may name an older one where a backup was
killed between the two, and never one that is not there yet. Earlier releases put the name alone. Where the secret is there, a
signature stands behind (backup.signature).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cdc_assets.backup.layout import is_batch_name, manifests_prefix, newest_key
from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.signature import describe, find_forgery, sign
from cdc_assets.errors import StoreError
from cdc_assets.resources.object_store import ObjectStore, StoredObject
from cdc_assets.resources.object_store.errors import MissingObjectError


@dataclass(frozen=True)
class NamedObject:
    """What is named as the newest; `digest` is empty where an earlier release has put it, `signature` where nobody has signed."""

    key: str
    digest: str = ""
    signature: str = ""

    def is_other(self, sha256: str) -> bool:
        """Whether an object of this digest is another than the one that was named."""
        return self.digest not in ("", sha256)


@dataclass(frozen=True)
class NewestName:
    """The object at `key`, which names one of `folder`: by a name that fits, which people call `what`."""

    key: str
    folder: str
    is_name: Callable[[str], bool]
    what: str

    def read(self, store: ObjectStore) -> NamedObject | None:
        """None where there is no such object, or it names nothing."""
        try:
            return self._parse(store.get(self.key))
        except MissingObjectError:
            return None

    def write(self, store: ObjectStore, key: str, sha256: str) -> None:
        """Put it, to name an object by its key and the digest of its bytes."""
        said = f"{key.removeprefix(self.folder)} {sha256}"
        store.put(self.key, " ".join(filter(None, (said, sign(self.key, said)))).encode())

    def authorship(self, store: ObjectStore) -> str:
        """Whether it is signed, for people; empty where nothing is named."""
        named = self.read(store)
        return describe(named.signature) if named else ""

    def forgeries(self, named: NamedObject, newest: str) -> Iterator[str]:
        """Why whoever has the secret has not written what is named, or the newest that is there."""
        forged = find_forgery(self.key, f"{named.key.removeprefix(self.folder)} {named.digest}", named.signature)
        if forged:
            yield forged
        elif named.signature and newest > named.key and sign(self.key, ""):
            yield f"{newest} is behind what {self.key} has signed: a backup is at work, was killed, or somebody else wrote it"

    def differences(self, store: ObjectStore, digests: Mapping[str, str], read: Callable[[], bytes]) -> Iterator[str]:
        """Whether the object that is named is there, and what it was. The chain tells of a loss before others.

        `digests`: of all of the chain that are there, empty of what cannot be read; `read`: this object's bytes.
        """
        newest = max(digests, default="")
        try:
            named = self._parse(read())
            if named is None:
                yield f"{self.key} names no {self.what}"
                return
            yield from self.forgeries(named, newest)
            if named.key > newest and not _is_there(store, named.key):
                yield f"{named.key} is missing: {self.key} names it as the newest {self.what}; what it held is not in the backup"
            elif (has := digests.get(named.key)) and named.is_other(has):
                yield f"{named.key} is another than when it was written: {self.key} names sha256 {named.digest}, it has {has}"
        except MissingObjectError:
            if newest:
                yield f"{self.key} is missing: nothing tells whether {newest} is the newest {self.what}, or later ones are gone"
        except StoreError as error:
            yield str(error)

    def _parse(self, data: bytes) -> NamedObject | None:
        name, *digests = data.decode(errors="replace").split(" ")
        known = self.is_name(name) and len(digests) <= 2 and all(re.fullmatch(r"[0-9a-f]{64}", each) for each in digests)
        return NamedObject(self.folder + name, *digests) if known else None


def newest_of_table(source: str, table: str) -> NewestName:
    """What names the newest manifest of a table."""
    return NewestName(newest_key(source, table), manifests_prefix(source, table), is_batch_name, "manifest")


def newest_differences(
    store: ObjectStore,
    listed: Mapping[str, StoredObject],
    manifests: Mapping[str, Manifest | str],
    *,
    of: tuple[str, str],
    read: Callable[[StoredObject], bytes],
) -> Iterator[str]:
    """`NewestName.differences` of a table, `of` source and table, by a listing of all that it has there.

    `manifests`: all of the chain by their keys, and instead of one that cannot be read why.
    """
    digests = {key: each.sha256 if isinstance(each, Manifest) else "" for key, each in manifests.items()}
    newest = newest_of_table(*of)
    if newest.key in listed:
        yield from newest.differences(store, digests, lambda: read(listed[newest.key]))
    elif digests:
        # Asked for: a first backup that is made meanwhile may have put it since.
        yield from newest.differences(store, digests, lambda: store.get(newest.key))


def _is_there(store: ObjectStore, key: str) -> bool:
    """Asked where the listing lacks it: a backup that goes on meanwhile may have written it since."""
    try:
        store.get(key)
    except MissingObjectError:
        return False
    return True
