"""Temporary views in a Spark session: `silver_now_world_country` for the table country of the source world.

A view shows the versions of silver and bronze at the moment of the call, in every query; registering it again moves it on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import LeftToSparkViewError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.silver_now.duckdb_views import current_tables
from cdc_assets.tables.current_spec import current_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_in_spark(
    session: SparkSession,
    source: str | BaseSource,
    tables: Sequence[str] = (),
    *,
    everywhere: bool = False,
    platform: Platform | None = None,
) -> list[str]:
    """Make a view of each of these tables of a source, or of all; their names. `everywhere`: for all sessions of the same Spark
    application, in the database `global_temp`.

    Raises:
        LeftToSparkViewError: a table has no view, for the reason in the text.
        DatabaseError: the registry has no such source or table, or two tables have one name.
    """
    from spark.errors import SparkJobError
    from spark.silver import view

    made = []
    for name, found in current_tables(source, tables, platform):
        try:
            spec = current_spec(found.platform, found.source, found.table)
            view.register(session, spec, f"{names.NOW}_{name}", everywhere=everywhere)
        except SparkJobError as error:
            raise LeftToSparkViewError(f"{found.source.name}/{spec.table}", str(error)) from error
        made.append(f"{'global_temp.' if everywhere else ''}{names.NOW}_{name}")
    return made
