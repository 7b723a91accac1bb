"""`cdc spec` and `cdc spark-submit`: for those who run the Spark jobs themselves (docs/how-to/library.md).

A spec is what a job needs to know, as JSON. spark-submit is Spark's own, with the Python, the Java and the jars that jobs need.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.verb_frame import OneChain, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import settings
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.registry.source_declaration import BaseSource
    from cdc_assets.registry.table_declaration import Table


@verb()
def spec(
    platform: Platform,
    job: Annotated[str, typer.Argument(help="bronze, silver, history, ledger or stream")],
    chain: OneChain,
    table: Annotated[str | None, typer.Argument(help="As in the registry or in the lake; default: all, or the only one.")] = None,
) -> None:
    """Print what the asset would run now; secrets are only referred to. Exit 1 where there is nothing to run."""
    from cdc_assets.deploy import next_specs

    if job not in next_specs.JOBS:
        raise typer.BadParameter(f"no job {job!r}; there are: {', '.join(next_specs.JOBS)}")
    tables = _tables(chain.source, table)
    if job == "bronze":
        bronze, jobs = next_specs.next_bronze(chain, tables)
        if jobs > 1:
            print(f"the first of {quantity(jobs, 'job')}: ask again when it has run", file=sys.stderr)
        print(bronze.to_json())
    elif job == "ledger":
        print(next_specs.next_ledger(chain, tables).to_json())
    elif job == "stream":
        print(next_specs.next_stream(chain, tables).to_json())
    elif len(tables) > 1:
        raise typer.BadParameter(f"which table of {chain.source.name}? {', '.join(t.name for t in tables)}")
    else:
        build = next_specs.next_silver if job == "silver" else next_specs.next_history
        print(build(chain, tables[0]).to_json())


def _tables(source: BaseSource, table: str | None) -> list[Table]:
    from cdc_assets.registry.names import table_name

    named_tables = [t for t in source.tables if table in (None, t.name, table_name(t))]
    if not named_tables:
        raise typer.BadParameter(f"{source.name} has no table {table}; it has: {', '.join(t.name for t in source.tables)}")
    return named_tables


@verb()
def spark_submit(context: typer.Context) -> None:
    """Run spark-submit with these arguments; its options come before the script, as always."""
    from cdc_assets.stack.components.spark_cluster import OF_CONNECT, submit_command, submit_environment
    from cdc_assets.stack.home import Home

    home = Home(settings.home()).create()
    command = submit_command(context.args)
    own = {name: value for name, value in os.environ.items() if name not in OF_CONNECT}
    os.execve(command[0], command, {**own, **submit_environment(home, context.args)})
