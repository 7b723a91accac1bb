"""`cdc status`: every component (pid, address, health, memory, log), every table's chain, and what its checks say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console

from cdc_assets import settings
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.status_answers import Answers, ask
from cdc_assets.cli.status_spark import with_executors
from cdc_assets.cli.status_tables import print_chains, print_components
from cdc_assets.main_job.verdict_lines import print_verdicts
from cdc_assets.stack.holder import supervisor_pid
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.resident import resident_bytes
from cdc_assets.stack.state import HEALTHY, STOPPED, ComponentState, StackState, read_state
from cdc_assets.volumetry import rows_compared
from cdc_assets.volumetry.check_verdicts import FAILED, NOT_RUN, PASSED, CheckVerdict, of_table


def status(
    output: Output = Format.text,
    tables: Annotated[bool, typer.Option(help="Ask for each table's chain as well.")] = True,
) -> None:
    """Show what runs, how far each table is, and what its checks say.

    A table that passes says when its rows were compared with the source: `pass, rows compared 3 h ago`.

    Exit 1 when a component is not healthy or a check has failed, 3 when nothing runs.
    """
    home = Home(settings.home())
    pid, state = supervisor_pid(home), read_state(home)
    with ask(tables=tables) if pid else nullcontext(Answers) as wait:
        # While the services answer.
        components = with_executors(_components(state, pid))
        found = wait()
    components += found.spark
    answer: dict[str, Any] = {
        "home": str(home.root),
        "supervisor": pid,
        "healthy": bool(pid and state and state.healthy and all(row["health"] == HEALTHY for row in found.spark)),
        "addresses": _addresses(home),
        "components": components,
        "rss_bytes": sum(c["rss_bytes"] or 0 for c in components),
        "registry": found.news.to_json() if found.news is not None else None,
        "tables": found.tables,
        "experimental": found.experimental,
    }
    said = judge(answer, found) if answer["tables"] else []
    if is_data(output):
        print_document(answer, output)
    else:
        _print(answer, said)
        if found.news:
            Console(highlight=False, markup=False, soft_wrap=True).print(str(found.news), style="yellow")
    if not answer["healthy"] or any(each.state == FAILED for each in said):
        raise typer.Exit(1 if pid else 3)


def judge(answer: dict[str, Any], found: Answers) -> list[CheckVerdict]:
    """What the checks say, put into the tables' rows and beside them."""
    if found.checks_unknown:
        answer["checks_unknown"] = found.checks_unknown
        for row in answer["tables"]:
            row["checks"] = "unknown"
        return []
    for row in answer["tables"]:
        compared = rows_compared.of_table(found.compared, row["source"], row["table"])
        row["checks"] = rows_compared.verdict_text(of_table(found.checks, row["source"], row["table"]), compared)
        row["rows_compared"] = compared and compared.to_json()
    answer["checks"] = [each.to_json() for each in found.checks if each.state != PASSED]
    return found.checks


def _components(state: StackState | None, supervisor: int | None) -> list[dict[str, Any]]:
    found = state.components if state else ()
    held = resident_bytes(c.pid for c in found if c.pid) if supervisor else {}
    return [_component(c, alive=bool(supervisor), held=held.get(c.pid or 0)) for c in found]


def _component(state: ComponentState, *, alive: bool, held: int | None) -> dict[str, Any]:
    health = state.health if alive else STOPPED
    return {
        "name": state.name,
        "health": health,
        "pid": state.pid if alive else None,
        "address": state.address,
        "rss_bytes": held,
        "restarts": state.restarts,
        "since": state.since,
        "started_in": state.started_in,
        "detail": state.detail if alive else "",
        "log": state.log,
    }


def _addresses(home: Home) -> dict[str, str]:
    environment = dict(read_json(home.stack).get("environment", {}))
    if "CDC_POSTGRES_HOST" in environment and "CDC_POSTGRES_PORT" in environment:
        at = f"{environment['CDC_POSTGRES_HOST']}:{environment['CDC_POSTGRES_PORT']}"
        # The passwords are in the files that `passwords` names: a status is copied into tickets.
        environment |= {f"dsn_{name}": f"postgresql://{name}_cdc@{at}/{name}" for name in ("world", "bank")}
        environment["passwords"] = str(home.secrets)
    # The path of the address of GCS is its key.
    return {name: value for name, value in environment.items() if name not in ("AWS_SECRET_ACCESS_KEY", "STORAGE_EMULATOR_HOST")}


def _print(answer: dict[str, Any], said: Sequence[CheckVerdict]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # For a pager or a ticket: no line is broken.
        console = Console(highlight=False, width=240)
    print_components(console, answer["components"], answer["home"])
    if not answer["supervisor"]:
        console.print(f"nothing runs in {answer['home']}: ./cdc up")
        return
    console.print(f"{answer['rss_bytes'] / 2**20:.0f} MB in all; state in {answer['home']}")
    print_chains(console, answer["tables"])
    for source, warning in answer["experimental"].items():
        console.print(f"{source}: {warning}", style="yellow", markup=False)
    print_verdicts(console, [each for each in said if each.state != NOT_RUN])
    if "checks_unknown" in answer:
        console.print(f"what the checks say is not known: {answer['checks_unknown']}", style="yellow", markup=False)
