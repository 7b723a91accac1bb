"""That names in Spark's catalog were asked for: a small file below CDC_HOME.

The catalog of the embedded server is in its memory. `cdc up` reads this file and makes the names again, and so does whoever has
started Spark again: `python -m cdc_assets.lake_sql.kept_names` (stack.components.spark_connect).
"""

from __future__ import annotations

import sys

from cdc_assets import settings
from cdc_assets.durable_file import read_json, replace_json
from cdc_assets.errors import CdcAssetsError, SparkRunError
from cdc_assets.lake_sql.lake_tables import lake_tables
from cdc_assets.lake_sql.spark_names import register_names
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.platform import Platform
from cdc_assets.stack.home import Home

_TRY_SECONDS, _LONGEST_PAUSE = 120, 15
"""A Spark that has just started may be busy, and the lake's store may start at the same time."""


def keep_names(home: Home, *, show_sensitive: bool) -> None:
    """The names are to be made again, with the values of sensitive columns or with hashes."""
    replace_json(home.spark_names, {"show_sensitive": show_sensitive})


def forget_names(home: Home) -> None:
    """The names are not made again from now on."""
    home.spark_names.unlink(missing_ok=True)


def are_kept(home: Home) -> bool:
    """Whether the names are to be made again."""
    return home.spark_names.exists()


def make_names_again(home: Home) -> int:
    """As they were asked for, of all tables that are declared now; how many there are.

    Raises:
        RegistryError: the declared sources cannot be read.
        LakeSqlError: see `register_names`.
        SparkRunError: the server's own reason.
    """
    settings.export_stack_environment()
    platform = Platform()
    asked = read_json(home.spark_names)
    tables = lake_tables(load_sources(settings.sources_folder()), platform.lake)
    return len(register_names(tables, platform, show_sensitive=bool(asked["show_sensitive"])).made)


def main() -> None:
    """The names that CDC_HOME says, tried again where the server has a reason of its own; ends with 1 and the last reason."""
    from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

    home = Home(settings.home())
    if not are_kept(home):
        return
    retrying = Retrying(
        stop=stop_after_delay(_TRY_SECONDS),
        wait=wait_exponential(max=_LONGEST_PAUSE),
        retry=retry_if_exception_type(SparkRunError),
        reraise=True,
    )
    try:
        made = retrying(make_names_again, home)
    except CdcAssetsError as error:
        sys.exit(" ".join(str(error).split()))
    print(f"{made} names in Spark's catalog, as cdc sql --register has asked for")


if __name__ == "__main__":
    main()
