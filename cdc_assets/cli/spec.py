"""`cdc spec`: what a Spark job needs to know, as JSON, for those who run the jobs themselves (docs/how-to/library.md)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.registry.base_table import Table
    from cdc_assets.registry.models import BaseSource


def spec(
    job: Annotated[str, typer.Argument(help="bronze, silver, history, ledger or stream")],
    source: Annotated[str, typer.Argument(autocompletion=complete_source)],
    table: Annotated[str | None, typer.Argument(help="As in the registry or in the lake; default: all, or the only one.")] = None,
) -> None:
    """Print what the asset would run now; secrets are only referred to. Exit 1 where there is nothing to run."""
    from cdc_assets.resources.platform import Platform
    from cdc_assets.spark_jobs import next_jobs

    if job not in next_jobs.JOBS:
        raise typer.BadParameter(f"no job {job!r}; there are: {', '.join(next_jobs.JOBS)}")
    (found,) = chosen_sources([source])
    platform, tables = Platform(), _tables(found, table)
    if job == "bronze":
        bronze, jobs = next_jobs.next_bronze(platform, found, tables)
        if jobs > 1:
            print(f"the first of {quantity(jobs, 'job')}: ask again when it has run", file=sys.stderr)
        print(bronze.to_json())
    elif job == "ledger":
        print(next_jobs.next_ledger(platform, found, tables).to_json())
    elif job == "stream":
        print(next_jobs.next_stream(platform, found, tables).to_json())
    elif len(tables) > 1:
        raise typer.BadParameter(f"which table of {source}? {', '.join(each.name for each in tables)}")
    else:
        build = next_jobs.next_silver if job == "silver" else next_jobs.next_history
        print(build(platform, found, tables[0]).to_json())


def _tables(source: BaseSource, table: str | None) -> list[Table]:
    from cdc_assets.names import table_name

    found = [each for each in source.tables if table in (None, each.name, table_name(each))]
    if not found:
        raise typer.BadParameter(f"{source.name} has no table {table}; it has: {', '.join(t.name for t in source.tables)}")
    return found
