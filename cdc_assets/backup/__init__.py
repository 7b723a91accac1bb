"""Backup of bronze: gzip JSON lines by hour, and a manifest per batch that is written last.

Layout below the store's prefix, as the S3 sink connector's TimeBasedPartitioner lays out:
    <source>/<table>/dt=YYYY-MM-DD/hr=HH/<topic>+<epoch>+<partition>+<first offset>.json.gz
    <source>/<table>/_manifests/<epoch>-<sum of first offsets>.json
Only what a manifest names is in the backup. A half-written batch is written again under the same keys.
"""

from cdc_assets.backup.copy import BackupResult, backup_table
from cdc_assets.backup.manifest import Manifest, backup_position
from cdc_assets.backup.verify import VerifyReport, verify_backup

__all__ = ["BackupResult", "Manifest", "VerifyReport", "backup_position", "backup_table", "verify_backup"]
