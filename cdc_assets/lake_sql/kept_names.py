"""That names in Spark's catalog were asked for: a small file below CDC_HOME.

The catalog of the embedded server is in its memory. `cdc up` reads this file and makes the names again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cdc_assets.durable_file import read_json, replace_json
from cdc_assets.lake_sql.lake_tables import LakeTable
from cdc_assets.lake_sql.spark_names import register_names
from cdc_assets.resources.platform import Platform

_FILE = "spark_names.json"


def keep_names(home: Path, *, show_sensitive: bool) -> None:
    """The names are to be made again, with the values of sensitive columns or with hashes."""
    replace_json(home / _FILE, {"show_sensitive": show_sensitive})


def forget_names(home: Path) -> None:
    """The names are not made again from now on."""
    (home / _FILE).unlink(missing_ok=True)


def are_kept(home: Path) -> bool:
    """Whether the names are to be made again."""
    return (home / _FILE).exists()


def make_names_again(home: Path, tables: Sequence[LakeTable], platform: Platform) -> int:
    """As they were asked for; how many there are.

    Raises:
        LakeSqlError: see `register_names`.
        SparkRunError: the server's own reason.
    """
    asked = read_json(home / _FILE)
    return len(register_names(tables, platform, show_sensitive=bool(asked["show_sensitive"])).made)
