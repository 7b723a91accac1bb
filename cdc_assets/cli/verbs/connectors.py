"""What a person does to connectors: preflight, diff, apply, restart, pause, resume, stop, snapshot and offsets.

`diff` and `apply` compare with the registry and bring connectors to it. The running ones may be foreign when they are named.
Offsets change only while a connector is stopped (KIP-875).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cdc_assets.cli.declared_sources import (
    EVERY_SOURCE,
    Sources,
    chosen_sources,
    complete_connector,
    tell_experimental,
)
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import OneChain, report_errors, say, verb
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import CdcAssetsError, ServiceError, SparkRunError
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.capture.preflight.inspection import Report
    from cdc_assets.clients.connect import ConnectClient


@verb()
def preflight(
    platform: Platform,
    sources: Sources = EVERY_SOURCE,
    fix: Annotated[bool, typer.Option("--fix", help="Run the statements that are safe, then look again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --fix: print the statements, run none.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what holds, too.")] = False,
    output: Output = Format.text,
) -> None:
    """Check source databases, a lake in an object store, and a Spark of yours, before and during capture.

    Exit 1 when something needed is lacking.
    """
    from cdc_assets.capture.preflight import inspection as looking
    from cdc_assets.capture.preflight.lake_and_spark import inspect_lake, inspect_spark

    reports = []
    for source in sources:
        captured = source.captured
        if captured is None:
            if sources.are_named:
                print(f"{source.name}: its topics are filled by others, there is no database to look at", file=sys.stderr)
            continue
        report = looking.preflight(Chain(platform, captured))
        if fix and not dry_run:
            for finding, outcome in looking.fix(Chain(platform, captured), report):
                print(f"{source.name}: {finding.mend}: {outcome}", file=sys.stderr)
            report = looking.preflight(Chain(platform, captured))
        reports.append(report)
        if not is_data(output):
            _print(report, verbose=verbose, safe_alone=fix and dry_run)
    for of_platform in () if sources.are_named else filter(None, (inspect_lake(platform.lake), inspect_spark(platform))):
        reports.append(of_platform)
        if not is_data(output):
            _print(of_platform, verbose=verbose, safe_alone=fix and dry_run)
    if is_data(output):
        print_document([report.to_json() for report in reports], output)
    if any(report.failures for report in reports):
        raise typer.Exit(1)


def _print(report: Report, *, verbose: bool, safe_alone: bool) -> None:
    if report.experimental:
        print(f"{report.source}: {report.experimental}")
    shown = [f for f in report.findings if (verbose or f.level != "ok") and (f.safe or not safe_alone)]
    for finding in shown:
        print(f"{report.source}: {finding.level}: {finding.check}: {finding.subject} {finding.message}")
        if finding.level != "ok" and finding.mend:
            print(f"    {finding.mend}" + (" (--fix runs it)" if finding.safe else ""))
    rules_kept = quantity(sum(f.level == "ok" for f in report.findings), "rule")
    counted = f"{quantity(len(report.warnings), 'warning')}, {quantity(len(report.failures), 'failure')}"
    print(f"{report.source}: {rules_kept} kept{'' if verbose else ' (-v lists them)'}, {counted}")


@verb()
def diff(platform: Platform, sources: Sources = EVERY_SOURCE, output: Output = Format.text) -> None:
    """Show what `cdc apply` would change; exit 1 when there is a difference, 2 when it would be refused."""
    tell_experimental(sources)
    raise typer.Exit(_preview(platform, sources, output))


@verb()
def apply(
    platform: Platform,
    sources: Sources = EVERY_SOURCE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Validate and show the difference, change nothing.")] = False,
    resume_offsets: Annotated[
        bool,
        typer.Option(
            "--resume-offsets", help="Go on from offsets that Connect has kept of a deleted connector of the same name."
        ),
    ] = False,
    output: Output = Format.text,
) -> None:
    """Bring the connectors to what is declared. Connect validates first. Only what differs is applied."""
    tell_experimental(sources)
    if dry_run:
        raise typer.Exit(2 if _preview(platform, sources, output) == 2 else 0)
    from cdc_assets.capture.connectors.apply_source import bring_sources

    done = []
    for row in bring_sources(platform, sources, resume_offsets=resume_offsets):
        done.append(row.to_json())
        for line in row.told:
            print(f"cdc: {line}", file=sys.stderr)
        if row.applied is not None and not is_data(output):
            print(row.line)
    if is_data(output):
        print_document(done, output)
    if any(row["error"] for row in done):
        raise typer.Exit(1)


def _preview(platform: Platform, sources: Sequence[BaseSource], output: str) -> int:
    from cdc_assets.capture.connectors.config_difference import difference_of
    from cdc_assets.capture.connectors.declared_connectors import declared_connectors

    differences = [difference_of(platform.connect(d.cluster), d.source, d.config) for d in declared_connectors(sources)]
    if is_data(output):
        print_document([difference.to_json() for difference in differences], output)
    else:
        for line in (line for difference in differences for line in difference.lines()):
            print(line)
        if all(difference.summary == "same" for difference in differences):
            print(f"{quantity(len(differences), 'connector')} as declared", file=sys.stderr)
    if any(difference.summary == "refused" for difference in differences):
        return 2
    return 0 if all(difference.summary == "same" for difference in differences) else 1


SPARK = "spark-connect"
_STATES = {"pause": "paused", "resume": "running", "stop": "stopped"}

Connectors = Annotated[list[str], typer.Argument(help="Connectors by name.", autocompletion=complete_connector)]
DryRunOfVerb = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


@verb()
def restart(
    platform: Platform,
    connectors: Connectors,
    everything: Annotated[bool, typer.Option("--all", help="Running tasks as well, not only what has failed.")] = False,
    dry_run: DryRunOfVerb = False,
    output: Output = Format.text,
) -> None:
    """Restart what has FAILED of connectors, and wait until every task runs; `spark-connect` is the stack's own Spark."""
    from cdc_assets.capture.connectors.apply_connector import HELD
    from cdc_assets.capture.connectors.connector_restart import restart_connector

    def act(connect: ConnectClient, name: str) -> None:
        if (state := connect.status(name)) is not None and state.state in HELD:
            raise ServiceError(f"connector {name} is {state.state}, and stays so when it is restarted: cdc resume {name}")
        restart_connector(connect, name, everything=everything)
        connect.wait_running(name)

    if SPARK in connectors:
        with report_errors():
            _restart_spark(dry_run=dry_run)
    if others := [name for name in connectors if name != SPARK]:
        _each(platform, others, "restart", act, dry_run=dry_run, output=output)


def _restart_spark(*, dry_run: bool) -> None:
    """End the stack's own Spark with all that it works on: its supervisor starts it again."""
    from cdc_assets.registry import settings
    from cdc_assets.stack.component_state import read_state
    from cdc_assets.stack.home import Home, supervisor_pid

    home = Home(settings.home())
    state = read_state(home) if supervisor_pid(home) else None
    pid = next((component.pid for component in state.components if component.name == SPARK), None) if state else None
    if pid is None:
        raise SparkRunError(f"the stack in {home.root} runs no Spark: ./cdc status; a server of yours is restarted where it runs")
    if not dry_run:
        # No SIGTERM: Spark would wait for a task that does not end.
        os.kill(pid, signal.SIGKILL)
    print(f"{SPARK}: process {pid} {'would be' if dry_run else 'was'} ended, and the supervisor starts it again: ./cdc status")


@verb()
def pause(platform: Platform, connectors: Connectors, dry_run: DryRunOfVerb = False, output: Output = Format.text) -> None:
    """Pause connectors: tasks stay and hold their slots, nothing is read. For longer, stop them."""
    _each(platform, connectors, "pause", lambda connect, name: connect.pause(name), dry_run=dry_run, output=output)


@verb()
def resume(platform: Platform, connectors: Connectors, dry_run: DryRunOfVerb = False, output: Output = Format.text) -> None:
    """Let paused or stopped connectors run, and wait until every task does; from the offsets that Connect has of them."""
    from cdc_assets.capture.connectors.connector_restart import resume_connector
    from cdc_assets.capture.connectors.connector_start import begin, is_beginning, without_mark

    def act(connect: ConnectClient, name: str) -> None:
        _refuse_other(platform, name)
        config = connect.config(name) or {}
        if is_beginning(config):
            begin(connect, without_mark(config), resume_offsets=True)
        else:
            resume_connector(connect, name)
        connect.wait_running(name)

    _each(platform, connectors, "resume", act, dry_run=dry_run, output=output)


def _refuse_other(platform: Platform, name: str) -> None:
    # A declared connector does not go on from an offset of another server; one that cannot be asked is told.
    from cdc_assets.capture.incarnations.server_verdict import refuse_other
    from cdc_assets.registry import names
    from cdc_assets.registry.errors import RefusalError

    for source in chosen_sources():
        if source.captured and names.connector_name(source.captured) == name:
            try:
                refuse_other(Chain(platform, source.captured))
            except RefusalError:
                raise
            except CdcAssetsError as error:
                print(f"cdc: whether the server is the one that was read cannot be told: {error}", file=sys.stderr)


@verb()
def stop(platform: Platform, connectors: Connectors, dry_run: DryRunOfVerb = False, output: Output = Format.text) -> None:
    """Stop connectors: no task is left; config and offsets stay. A replication slot then holds back the source's log."""
    _each(platform, connectors, "stop", lambda connect, name: connect.stop(name), dry_run=dry_run, output=output)


def _refuse_of_git(name: str, word: str) -> None:
    # State is declared in a manifest; a registry that cannot be read stands in nobody's way.
    from cdc_assets.capture.connectors.connector_inventory import refuse_write_of
    from cdc_assets.registry.errors import RegistryError

    try:
        sources = chosen_sources()
    except RegistryError as error:
        print(f"cdc: whether git owns connector {name} cannot be told: {error}", file=sys.stderr)
        return
    refuse_write_of(sources, name, f"cdc {word} {name}", f"set `state: {_STATES[word]}` in its manifest, and commit that")


def _each(
    platform: Platform,
    connectors: list[str],
    word: str,
    act: Callable[[ConnectClient, str], object],
    *,
    dry_run: bool,
    output: str,
) -> None:
    from cdc_assets.capture.connectors.connector_inventory import locate

    answers = []
    for name in connectors:
        answer: dict[str, Any] = {"connector": name, "verb": word, "dry_run": dry_run, "error": None}
        try:
            if word in _STATES:
                _refuse_of_git(name, word)
            connect = locate(platform, name)
            if not dry_run:
                act(connect, name)
            status = connect.status(name)
            answer |= {"state": status.state if status else "UNASSIGNED", "tasks": list(status.tasks) if status else []}
        except CdcAssetsError as error:
            answer["error"] = str(error)
            print(f"cdc: {error}", file=sys.stderr)
        answers.append(answer)
        if not is_data(output) and not answer["error"]:
            done = f"would {word}, is" if dry_run else f"{word} asked, is"
            print(f"{name}: {done} {answer['state']}, tasks: {', '.join(map(str, answer['tasks'])) or 'none'}")
    if is_data(output):
        print_document(answers, output)
    if any(answer["error"] for answer in answers):
        raise typer.Exit(1)


_WHERE = "Only these rows: a condition in the database's SQL, the same for each table."


@verb()
def snapshot(
    chain: OneChain,
    tables: Annotated[list[str], typer.Argument(help="The tables, as in the database or in the lake.")],
    where: Annotated[str, typer.Option("--where", help=_WHERE)] = "",
    blocking: Annotated[
        bool, typer.Option("--blocking", help="In one piece, while all tables of the source stand still.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Read tables again through their running connector, and wait until their rows are in the topics.

    Use --blocking if rows of an earlier table must go. After a kill, give the same command again.
    """
    from cdc_assets.capture.onboarding.snapshot_again import Reading, judge, read_again, refuse_kind, steps, work_of

    source = chain.source
    tell_experimental([source])
    chosen = _registry_names(source, tables)
    refuse_kind(source)
    reading = Reading(chosen, "blocking" if blocking else "incremental", where.strip())
    snapshot_work = work_of(chain.platform, source.name, reading, say)
    answer = {"source": source.name, "tables": list(chosen), "way": reading.way, "where": reading.where, "dry_run": dry_run}
    if dry_run:
        judge(snapshot_work, reading.where)
        rows = [{"step": step.name, "what": step.what} for step in steps(reading)]
        if is_data(output):
            print_document({**answer, "plan": rows}, output)
        else:
            print(f"{source.name}: {', '.join(chosen)} again, {reading.way}")
            print("\n".join(f"{number:2} {row['step']:14} {row['what']}" for number, row in enumerate(rows, 1)))
        return
    taken = read_again(snapshot_work, reading)
    if is_data(output):
        print_document({**answer, "steps": taken}, output)
        return
    snapshot = taken["snapshot"]
    for table, rows in snapshot["rows_scanned"].items():
        print(f"{source.name}: {table} read again ({reading.way}): {quantity(rows, 'row')} in {snapshot['seconds']:.1f} s")
    print(f"the chain carries them like changes; cdc reconcile {source.name} compares silver with the source then")


def _registry_names(source: BaseSource, tables: list[str]) -> tuple[str, ...]:
    """Each once, as the registry names them."""
    try:
        return tuple(dict.fromkeys(source.table(table).name for table in tables))
    except KeyError as error:
        taken_in = f"a new one is taken in by: cdc onboard {source.name} {' '.join(tables)}"
        raise typer.BadParameter(f"{error.args[0]}; {taken_in}") from None


offsets_app = typer.Typer(no_args_is_help=True, help=__doc__)
Connector = Annotated[str, typer.Argument(help="Its name.", autocompletion=complete_connector)]
DryRunOfOffsets = Annotated[bool, typer.Option("--dry-run", help="Show before and after, and change nothing.")]


@offsets_app.command("get")
@verb()
def get_(platform: Platform, connector: Connector, output: Output = Format.json) -> None:
    """Print a connector's offsets, in the form that `set` reads."""
    from cdc_assets.capture.connectors.connector_inventory import locate

    print_document(locate(platform, connector).offsets(connector), output)


@offsets_app.command("set")
@verb()
def set_(
    platform: Platform,
    connector: Connector,
    file: Annotated[Path, typer.Option("--file", "-f", help="As `get` prints it; - for standard input.")],
    dry_run: DryRunOfOffsets = False,
    output: Output = Format.json,
) -> None:
    """Set the offsets in a file, and leave all others; an offset of null is forgotten."""
    offsets = _read(file)
    connect, before = _require_stopped(platform, connector)
    if dry_run:
        entries = [*before, *(offset.to_json() for offset in offsets)]
        by_partition = {json.dumps(entry["partition"], sort_keys=True): entry for entry in entries}
        after = [entry for entry in by_partition.values() if entry["offset"] is not None]
    else:
        print(connect.patch_offsets(connector, offsets), file=sys.stderr)
        after = connect.offsets(connector)
    print_document({"connector": connector, "dry_run": dry_run, "before": before, "after": after}, output)


@offsets_app.command("reset")
@verb()
def reset(platform: Platform, connector: Connector, dry_run: DryRunOfOffsets = False, output: Output = Format.json) -> None:
    """Forget all offsets: a Debezium connector then snapshots anew, a mirror copies from the beginning again."""
    connect, before = _require_stopped(platform, connector)
    if not dry_run:
        print(connect.reset_offsets(connector), file=sys.stderr)
    after: list[Any] = [] if dry_run else connect.offsets(connector)
    print_document({"connector": connector, "dry_run": dry_run, "before": before, "after": after}, output)


def _require_stopped(platform: Platform, connector: str) -> tuple[ConnectClient, list[dict[str, Any]]]:
    """Where it is, and its offsets. Raises ServiceError: it is not stopped."""
    from cdc_assets.capture.connectors.connector_inventory import locate

    connect = locate(platform, connector)
    before = connect.offsets(connector)
    status = connect.status(connector)
    if status is None or not status.stopped:
        state = status.state if status else "UNASSIGNED"
        raise ServiceError(
            f"connector {connector} is {state}; offsets can be changed only when it is stopped: cdc stop {connector}"
        )
    return connect, before


def _read(file: Path) -> list[SourceOffset]:
    try:
        # YAML has JSON in it, and `get` prints both.
        document = YAML(typ="safe", pure=True).load(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
        entries = document["offsets"] if isinstance(document, dict) else document
        return [SourceOffset(dict(entry["partition"]), entry["offset"]) for entry in entries]
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, YAMLError) as error:
        raise typer.BadParameter(
            f'{file}: not [{{"partition": {{…}}, "offset": {{…}}}}] as `cdc offsets get` prints it: {error}'
        ) from None
