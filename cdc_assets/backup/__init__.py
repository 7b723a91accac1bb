"""Backup of bronze: gzip JSON lines by hour, and a manifest per batch that is written last.

Layout below the store's prefix, as the S3 sink connector's TimeBasedPartitioner lays out (`dt=…/hr=…` may be declared otherwise):
    <source>/<table>/dt=YYYY-MM-DD/hr=HH/<topic>+<epoch>+<partition>+<first offset>.json.gz
    <source>/<table>/_plans/<batch>.json        what a batch is going to hold, written first
    <source>/<table>/_manifests/<batch>.json    what it holds, written last
    <source>/<table>/_epochs/<epoch>.json       an epoch that had no records when it was seen first
    <source>/<table>/_columns                   the schema ledger of its silver, where columns have changed
    <source>/<table>/_readings/<epoch>.json     where the reading ends that an epoch begins with
    <source>/<table>/_bases/<epoch>.json        the epoch that the backup begins with, once earlier ones are gone
    <source>/<table>/_newest                    the newest manifest, by name and SHA-256
`<batch>` is `<epoch>-<sum of first offsets>`. Only what a manifest names is in the backup.
"""

from cdc_assets.backup.batch_form import BatchForm
from cdc_assets.backup.copy import BackupResult, backup_table
from cdc_assets.backup.manifest import Manifest
from cdc_assets.backup.position import BackupPosition, backup_position
from cdc_assets.backup.verify import VerifyReport, verify_backup

__all__ = [
    "BackupPosition",
    "BackupResult",
    "BatchForm",
    "Manifest",
    "VerifyReport",
    "backup_position",
    "backup_table",
    "verify_backup",
]
