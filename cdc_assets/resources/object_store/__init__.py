"""Object stores behind one small interface: S3, GCS, and a local folder with the same semantics."""

from __future__ import annotations

from cdc_assets.kinds.stores import STORES
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store.base import ObjectStore, StoredObject

__all__ = ["ObjectStore", "StoredObject", "open_store"]


def open_store(config: BackupStore) -> ObjectStore:
    """The store that a source declares. The vendor's library is imported here, not while definitions load."""
    store: ObjectStore = STORES[config.kind].store.load()(config)
    return store
