"""`cdc status`: every component (pid, address, health, memory, log) and every table's chain; -o json for programs."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cdc_assets import settings
from cdc_assets.cli.dagster_news import dagster_news
from cdc_assets.cli.rows import Format, Output, is_data, print_document
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.start import resident_bytes
from cdc_assets.stack.state import STOPPED, ComponentState, read_state
from cdc_assets.stack.supervisor import running


def status(
    output: Output = Format.text,
    tables: Annotated[bool, typer.Option(help="Ask for each table's chain as well.")] = True,
) -> None:
    """Show what runs and how far each table is. Exit 1 when a component is not healthy, 3 when nothing runs."""
    home = Home(settings.home())
    pid, state = running(home), read_state(home)
    components = [_component(c, alive=bool(pid)) for c in (state.components if state else ())]
    answer: dict[str, Any] = {
        "home": str(home.root),
        "supervisor": pid,
        "healthy": bool(pid and state and state.healthy),
        "addresses": _addresses(home),
        "components": components,
        "rss_bytes": sum(c["rss_bytes"] or 0 for c in components) + (resident_bytes(pid) if pid and not components else 0),
        "registry": news.to_json() if (news := dagster_news() if pid else None) else None,
        "tables": _tables() if pid and tables and not (news and news.broken) else [],
    }
    if is_data(output):
        print_document(answer, output)
    else:
        _print(answer)
        if news:
            Console(highlight=False, markup=False, soft_wrap=True).print(str(news), style="yellow")
    if not answer["healthy"]:
        raise typer.Exit(1 if pid else 3)


def _component(state: ComponentState, *, alive: bool) -> dict[str, Any]:
    health = state.health if alive else STOPPED
    return {
        "name": state.name,
        "health": health,
        "pid": state.pid if alive else None,
        "address": state.address,
        "rss_bytes": resident_bytes(state.pid) if alive and state.pid else None,
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
    return {name: value for name, value in environment.items() if "SECRET_ACCESS" not in name}


def _tables() -> list[dict[str, Any]]:
    from cdc_assets.volumetry.chain_status import chain_status

    return [chain.to_json() for chain in chain_status()]


def _print(answer: dict[str, Any]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # For a pager or a ticket: no line is broken.
        console = Console(highlight=False, width=240)
    table = Table("component", "health", "pid", "address", "memory", "restarts", "for", "log", box=None, pad_edge=False)
    for c in answer["components"]:
        memory = f"{c['rss_bytes'] / 2**20:.0f} MB" if c["rss_bytes"] else ""
        colour = "green" if c["health"] == "healthy" else "red"
        since = f"{time.time() - c['since']:.0f} s" if c["since"] else ""
        log = c["log"].removeprefix(answer["home"] + "/")
        table.add_row(
            c["name"], f"[{colour}]{c['health']}[/]", str(c["pid"] or ""), c["address"], memory, str(c["restarts"]), since, log
        )
    console.print(table)
    for c in answer["components"]:
        if c["detail"]:
            console.print(f"{c['name']}: {c['detail']}")
    if not answer["supervisor"]:
        console.print(f"nothing runs in {answer['home']}: ./cdc up")
        return
    console.print(f"{answer['rss_bytes'] / 2**20:.0f} MB in all; state in {answer['home']}")
    if answer["tables"]:
        chains = Table(*answer["tables"][0], box=None, pad_edge=False)
        for row in answer["tables"]:
            chains.add_row(*("" if value is None else str(value) for value in row.values()))
        console.print(chains)
