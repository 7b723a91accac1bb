"""The class of each kind of object store, and a store opened by its kind.

The vendors' libraries are imported inside the stores' methods, so that definitions load without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cdc_assets.clients.gcs import GcsStore
from cdc_assets.clients.object_store import LocalStore, ObjectStore
from cdc_assets.clients.s3 import S3Store
from cdc_assets.registry.backup_store import BackupStore

STORE_CLASSES: Mapping[str, Callable[[BackupStore], ObjectStore]] = {
    "s3": S3Store,
    "gcs": GcsStore,
    "local": LocalStore,
}


def open_store(config: BackupStore) -> ObjectStore:
    """The store that a source declares. Raises LookupError: its kind has no row here."""
    if config.kind not in STORE_CLASSES:
        raise LookupError(f"store {config.kind} has no row in the table of {__name__}: see docs/how-to/add-an-object-store.md")
    return STORE_CLASSES[config.kind](config)
