"""`cdc status`: every component (pid, address, health, memory, log), every table's chain, and what its checks say.

Dagster, both Kafka clusters, Connect and the Delta logs are asked all at once; one that does not answer is shown as that.
A terminal of 80 columns shows every name, port and verdict; a wider one shows more of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cdc_assets.cli.declared_sources import chosen_sources, dagster_news
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import verb
from cdc_assets.cli.verdict_lines import print_verdicts
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import foreign_facts, lacks_of
from cdc_assets.clients.spark_work import RESTART, overlong_work
from cdc_assets.operations.registry_reload import RegistryNews
from cdc_assets.proof import chain_verdicts
from cdc_assets.proof.chain_verdicts import (
    FAILED,
    NOT_RUN,
    PASSED,
    CheckVerdict,
    RowsCompared,
    check_verdicts,
    last_comparisons,
    verdicts_of_table,
)
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import Complaint, common_causes, first_and_more, visible
from cdc_assets.registry.errors import CdcAssetsError, SparkRunError
from cdc_assets.registry.kinds import experimental_warnings
from cdc_assets.stack.component_state import HEALTHY, STOPPED, UNHEALTHY, ComponentState, read_state
from cdc_assets.stack.components.spark_cluster import WORKERS
from cdc_assets.stack.home import Home, read_json, supervisor_pid
from cdc_assets.stack.processes import resident_bytes
from spark.errors import quantity

_LAGS = ("mirror_lag", "bronze_lag", "silver_lag", "history_lag")
# Figures of the chain; what is wrong with it has a line of its own.
_APART = ("error", "verdicts", "rows_compared")
_UNBOUNDED = 10_000
"""Columns: more than any row takes."""


def print_components(console: Console, components: Sequence[Mapping[str, Any]], home: str) -> None:
    """One row for each; what its probe says below."""
    wide = _component_table(components, home, wide=True)
    console.print(wide if _fits(console, wide) else _component_table(components, home, wide=False))
    for c in components:
        if c["detail"]:
            console.print(visible(f"{c['name']}: {c['detail']}"), markup=False, soft_wrap=True)


def _component_table(components: Sequence[Mapping[str, Any]], home: str, *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("component", "health", "pid", "address", "memory", *(("restarts", "for", "log") if wide else ())):
        table.add_column(column, no_wrap=True, overflow="fold")
    for c in components:
        memory = f"{c['rss_bytes'] / 2**20:.0f} MB" if c["rss_bytes"] else ""
        colour = "green" if c["health"] == "healthy" else "red"
        again = f", {quantity(c['restarts'], 'restart')}" if c["restarts"] and not wide else ""
        row = [c["name"], f"[{colour}]{c['health']}{again}[/]", str(c["pid"] or ""), c["address"], memory]
        if wide:
            since = f"{time.time() - c['since']:.0f} s" if c["since"] else ""
            row += [str(c["restarts"]), since, c["log"].removeprefix(home + "/")]
        table.add_row(*row)
    return table


def print_chains(console: Console, tables: Sequence[Mapping[str, Any]]) -> None:
    """One row for each table; errors below, one line for all that have the same."""
    if not tables:
        return
    wide = _all_figures(tables)
    console.print(wide if _fits(console, wide) else _few_figures(tables))
    complaints = [Complaint(f"{row['source']}/{row['table']}", row["table"], row["error"]) for row in tables if row["error"]]
    for same in common_causes(complaints):
        console.print(visible(f"{first_and_more(same)}: {same[0].text}"), markup=False, soft_wrap=True)


def _all_figures(tables: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = [name for name in tables[0] if name not in _APART]
    for column in columns:
        table.add_column(column, no_wrap=True)
    for row in tables:
        table.add_row(*("" if row[name] is None else str(row[name]) for name in columns if name != "checks"), _checks(row))
    return table


def _few_figures(tables: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("table", no_wrap=True, overflow="fold")
    for column in ("behind", "rows", "checks"):
        table.add_column(column)
    for row in tables:
        behind = ", ".join(f"{name.removesuffix('_lag')} {row[name]}" for name in _LAGS if row.get(name))
        rows = "" if row["silver_rows"] is None else f"{row['silver_rows']:,}"
        table.add_row(f"{row['source']}/{row['table']}", behind or "-", rows, _checks(row))
    return table


def _fits(console: Console, table: Table) -> bool:
    return console.measure(table, options=console.options.update(width=_UNBOUNDED)).maximum <= console.width


def _checks(row: Mapping[str, Any]) -> str:
    checks_text, compared = escape(visible(row["checks"])), row.get("rows_compared")
    is_fresh = compared is not None and not RowsCompared(**compared).is_long_ago(time.time())
    colour = "red" if "failed" in checks_text else "green" if checks_text.startswith("pass") and is_fresh else "yellow"
    return f"[{colour}]{checks_text}[/]"


_EXECUTOR = "CoarseGrainedExecutorBackend"
_NO_PROCESS = {"pid": None, "rss_bytes": None, "restarts": 0, "since": None, "started_in": None, "detail": "", "log": ""}


def with_executors(components: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The components, and below each of Spark's workers the executors that live."""
    shown_rows: list[dict[str, Any]] = []
    for component in components:
        rows = list(_executors(component["pid"])) if component["name"] in WORKERS and component["pid"] else []
        apart = sum(row["rss_bytes"] for row in rows)
        # A worker's memory is told with that of its children.
        shown_rows += [{**component, "rss_bytes": (component["rss_bytes"] or 0) - apart} if rows else dict(component), *rows]
    return shown_rows


def foreign_spark(platform: Platform) -> list[dict[str, Any]]:
    """A server of yours: itself, its master and its executors; nothing where Spark is the stack's own."""
    remote = settings.lookup("CDC_SPARK_REMOTE")
    if not remote or settings.is_of_stack(remote):
        return []
    try:
        facts = foreign_facts(platform.spark())
    except SparkRunError as error:
        return [_row("spark (yours)", remote, str(error), health=UNHEALTHY)]
    lacks = list(lacks_of(facts))
    health = UNHEALTHY if any(lack.is_needed for lack in lacks) else HEALTHY
    message = "; ".join((f"Spark {facts.spark}", *(lack.message for lack in lacks)))
    alive = f"{quantity(len(facts.executors), 'executor')} alive, {quantity(facts.cluster.slots, 'task')} at a time"
    rows = [_row("spark (yours)", remote, message, health=health), _row("spark master (yours)", facts.cluster.master, alive)]
    return rows + [_row("executor (yours)", f"{executor.host} pid {executor.pid}", "") for executor in facts.executors]


def long_work() -> list[dict[str, Any]]:
    """Jobs that take far longer than their like."""
    own = settings.is_of_stack(settings.lookup("CDC_SPARK_REMOTE") or "")
    way = f": {RESTART} ends it" if own else ""
    return [_row("  job of Spark", "", f"{sentence}{way}", health=UNHEALTHY) for sentence in overlong_work(time.time())]


def _executors(worker: int) -> Iterator[dict[str, Any]]:
    import psutil

    try:
        children = {child: child.cmdline() for child in psutil.Process(worker).children()}
        own = {child: words for child, words in children.items() if any(_EXECUTOR in word for word in words)}
        rss_of = resident_bytes(child.pid for child in own)
        for child, words in own.items():
            row = _row(f"  executor {words[words.index('--executor-id') + 1]}", "", "")
            yield {**row, "pid": child.pid, "rss_bytes": rss_of[child.pid], "since": child.create_time()}
    except psutil.NoSuchProcess:
        # Ended while it was looked at: the next look finds its successor.
        return


def _row(name: str, address: str, detail: str, *, health: str = HEALTHY) -> dict[str, Any]:
    return {"name": name, "health": health, "address": address, **_NO_PROCESS, "detail": detail}


@dataclass(frozen=True)
class Answers:
    """As found. `checks_unknown` says why Dagster could not be asked for them; empty where it was.

    `compared`: by silver's asset, when its rows were compared last. `spark` are rows about a server of yours. `experimental`: why
    nobody should rely on a source's kind yet, by the source.
    """

    news: RegistryNews | None = None
    tables: list[dict[str, Any]] = field(default_factory=list)
    checks: list[CheckVerdict] = field(default_factory=list)
    checks_unknown: str = ""
    compared: Mapping[tuple[str, ...], RowsCompared] = field(default_factory=dict)
    spark: list[dict[str, Any]] = field(default_factory=list)
    experimental: dict[str, str] = field(default_factory=dict)


@contextmanager
def ask_stack(platform: Platform, *, tables: bool) -> Iterator[Callable[[], Answers]]:
    """Asks, and yields what waits for the answers. Of a registry that is broken no table is told.

    One after the other each waits for the one before, and the libraries of the next are loaded meanwhile by nobody.
    """
    from cdc_assets.proof.chain_status import chain_status

    with ThreadPoolExecutor(4, thread_name_prefix="status") as pool:
        news, spark = pool.submit(dagster_news), pool.submit(lambda: [*foreign_spark(platform), *long_work()])
        chains = pool.submit(lambda: [chain.to_json() for chain in chain_status()]) if tables else None
        checks = pool.submit(ask_checks) if tables else None

        def wait() -> Answers:
            stack_news = news.result()
            if chains is None or checks is None or (stack_news and stack_news.broken):
                return Answers(stack_news, spark=spark.result())
            return replace(
                checks.result(),
                news=stack_news,
                tables=chains.result(),
                spark=spark.result(),
                experimental=experimental_warnings(chosen_sources()),
            )

        yield wait


def ask_checks() -> Answers:
    """What the checks say and when rows were compared, or why nobody knows."""
    dagster = DagsterAnswers()
    try:
        checks = check_verdicts(dagster)
        return Answers(checks=checks, compared=last_comparisons(dagster, checks))
    except CdcAssetsError as error:
        return Answers(checks_unknown=str(error))


@verb()
def status(
    platform: Platform,
    output: Output = Format.text,
    tables: Annotated[bool, typer.Option(help="Ask for each table's chain as well.")] = True,
) -> None:
    """Show what runs, how far each table is, and what its checks say.

    A table that passes says when its rows were compared with the source: `pass, rows compared 3 h ago`.

    Exit 1 when a component is not healthy or a check has failed, 3 when nothing runs.
    """
    home = Home(settings.home())
    pid, state = supervisor_pid(home), read_state(home)
    with ask_stack(platform, tables=tables) if pid else nullcontext(Answers) as wait:
        # While the services answer.
        states = state.components if state else ()
        rss_of = resident_bytes(c.pid for c in states if c.pid) if pid else {}
        components = with_executors([_component(c, alive=bool(pid), held=rss_of.get(c.pid or 0)) for c in states])
        answers = wait()
    components += answers.spark
    answer: dict[str, Any] = {
        "home": str(home.root),
        "supervisor": pid,
        "healthy": bool(pid and state and state.healthy and all(row["health"] == HEALTHY for row in answers.spark)),
        "addresses": _addresses(home),
        "components": components,
        "rss_bytes": sum(c["rss_bytes"] or 0 for c in components),
        "registry": answers.news.to_json() if answers.news is not None else None,
        "tables": answers.tables,
        "experimental": answers.experimental,
    }
    verdicts = judge_chain(answer, answers) if answer["tables"] else []
    if is_data(output):
        print_document(answer, output)
    else:
        _print(answer, verdicts)
        if answers.news:
            Console(highlight=False, markup=False, soft_wrap=True).print(str(answers.news), style="yellow")
    if not answer["healthy"] or any(verdict.state == FAILED for verdict in verdicts):
        raise typer.Exit(1 if pid else 3)


def judge_chain(answer: dict[str, Any], found: Answers) -> list[CheckVerdict]:
    """What the checks say, put into the tables' rows and beside them."""
    if found.checks_unknown:
        answer["checks_unknown"] = found.checks_unknown
        for row in answer["tables"]:
            row["checks"] = "unknown"
        return []
    for row in answer["tables"]:
        compared = chain_verdicts.comparison_of_table(found.compared, row["source"], row["table"])
        row["checks"] = chain_verdicts.verdict_text(verdicts_of_table(found.checks, row["source"], row["table"]), compared)
        row["rows_compared"] = compared and compared.to_json()
    answer["checks"] = [verdict.to_json() for verdict in found.checks if verdict.state != PASSED]
    return found.checks


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
    print_verdicts(console, [verdict for verdict in said if verdict.state != NOT_RUN])
    if "checks_unknown" in answer:
        console.print(f"what the checks say is not known: {answer['checks_unknown']}", style="yellow", markup=False)
