"""What a source needs besides its tables, in its backup: connectors, offsets, topics, its registry file, its schemas.

Layout below the store's prefix; no table's folder has a hyphen:
    <source>/platform-state/parts/<sha256>.json    a part of what was found, under the digest of its bytes; written first
    <source>/platform-state/log/<number>.json      an entry: the digests of its parts and of the entry before; written last
    <source>/platform-state/newest                 where to look for the newest entry (a cache)
An object is written once, and never again. What has not changed is not written: an entry names the part that is there.
"""

from cdc_assets.backup.platform.document import PlatformEntry, PlatformState
from cdc_assets.backup.platform.log import newest_part, newest_state, registry_files, write_state
from cdc_assets.backup.platform.log_check import verify_state
from cdc_assets.backup.platform.source_platform import look_at_platform

__all__ = [
    "PlatformEntry",
    "PlatformState",
    "look_at_platform",
    "newest_part",
    "newest_state",
    "registry_files",
    "verify_state",
    "write_state",
]
