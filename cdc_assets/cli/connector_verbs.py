"""`cdc restart|pause|resume|stop NAME…`: what a person does to running connectors, foreign ones included when named."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.chosen_sources import complete_connector
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.errors import CdcAssetsError, ConnectError, SparkRunError

if TYPE_CHECKING:
    from cdc_assets.resources.connect import ConnectClient

SPARK = "spark-connect"
_STATES = {"pause": "paused", "resume": "running", "stop": "stopped"}

Connectors = Annotated[list[str], typer.Argument(help="Connectors by name.", autocompletion=complete_connector)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def restart(
    connectors: Connectors,
    everything: Annotated[bool, typer.Option("--all", help="Running tasks as well, not only what has failed.")] = False,
    dry_run: DryRun = False,
    output: Output = Format.text,
) -> None:
    """Restart what has FAILED of connectors, and wait until every task runs; `spark-connect` is the stack's own Spark."""
    from cdc_assets.connectors.apply import HELD
    from cdc_assets.connectors.first_snapshot import restart_connector

    def act(connect: ConnectClient, name: str) -> None:
        if (held := connect.status(name)) is not None and held.state in HELD:
            raise ConnectError(f"connector {name} is {held.state}, and stays so when it is restarted: cdc resume {name}")
        restart_connector(connect, name, everything=everything)
        connect.wait_running(name)

    if SPARK in connectors:
        with report_errors():
            _restart_spark(dry_run=dry_run)
    if others := [name for name in connectors if name != SPARK]:
        _each(others, "restart", act, dry_run=dry_run, output=output)


def _restart_spark(*, dry_run: bool) -> None:
    """End the stack's own Spark with all that it works on: its supervisor starts it again."""
    from cdc_assets import settings
    from cdc_assets.stack.holder import supervisor_pid
    from cdc_assets.stack.home import Home
    from cdc_assets.stack.state import read_state

    home = Home(settings.home())
    state = read_state(home) if supervisor_pid(home) else None
    pid = next((each.pid for each in state.components if each.name == SPARK), None) if state else None
    if pid is None:
        raise SparkRunError(f"the stack in {home.root} runs no Spark: ./cdc status; a server of yours is restarted where it runs")
    if not dry_run:
        # No SIGTERM: Spark would wait for a task that does not end.
        os.kill(pid, signal.SIGKILL)
    print(f"{SPARK}: process {pid} {'would be' if dry_run else 'was'} ended, and the supervisor starts it again: ./cdc status")


def pause(connectors: Connectors, dry_run: DryRun = False, output: Output = Format.text) -> None:
    """Pause connectors: tasks stay and hold their slots, nothing is read. For longer, stop them."""
    _each(connectors, "pause", lambda connect, name: connect.pause(name), dry_run=dry_run, output=output)


def resume(connectors: Connectors, dry_run: DryRun = False, output: Output = Format.text) -> None:
    """Let paused or stopped connectors run, and wait until every task does; from the offsets that Connect has of them."""
    from cdc_assets.connectors.beginning import begin, is_beginning, without_mark
    from cdc_assets.connectors.first_snapshot import resume_connector

    def act(connect: ConnectClient, name: str) -> None:
        _refuse_other(name)
        config = connect.config(name) or {}
        if is_beginning(config):
            begin(connect, without_mark(config), resume_offsets=True)
        else:
            resume_connector(connect, name)
        connect.wait_running(name)

    _each(connectors, "resume", act, dry_run=dry_run, output=output)


def _refuse_other(name: str) -> None:
    """A declared connector does not go on from an offset of another server; one that cannot be asked is told."""
    from cdc_assets import names
    from cdc_assets.cli.chosen_sources import chosen_sources
    from cdc_assets.errors import IncarnationError
    from cdc_assets.identity.look import refuse_other
    from cdc_assets.resources.platform import Platform

    for source in chosen_sources():
        if source.captured and names.connector_name(source.captured) == name:
            try:
                refuse_other(Platform(), source.captured)
            except IncarnationError:
                raise
            except CdcAssetsError as error:
                print(f"cdc: whether the server is the one that was read cannot be told: {error}", file=sys.stderr)


def stop(connectors: Connectors, dry_run: DryRun = False, output: Output = Format.text) -> None:
    """Stop connectors: no task is left; config and offsets stay. A replication slot then holds back the source's log."""
    _each(connectors, "stop", lambda connect, name: connect.stop(name), dry_run=dry_run, output=output)


def _refuse_of_git(name: str, verb: str) -> None:
    """State is declared in a manifest; a registry that cannot be read stands in nobody's way."""
    from cdc_assets.cli.chosen_sources import chosen_sources
    from cdc_assets.connectors.owner import refuse_write_of
    from cdc_assets.registry_files.errors import RegistryError

    try:
        sources = chosen_sources()
    except RegistryError as error:
        print(f"cdc: whether git owns connector {name} cannot be told: {error}", file=sys.stderr)
        return
    refuse_write_of(sources, name, f"cdc {verb} {name}", f"set `state: {_STATES[verb]}` in its manifest, and commit that")


def _each(connectors: list[str], verb: str, act: Callable[[ConnectClient, str], object], *, dry_run: bool, output: str) -> None:
    from cdc_assets.connectors.inventory import locate
    from cdc_assets.resources.platform import Platform

    platform, answers = Platform(), []
    for name in connectors:
        answer: dict[str, object] = {"connector": name, "verb": verb, "dry_run": dry_run, "error": None}
        try:
            if verb in _STATES:
                _refuse_of_git(name, verb)
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
            done = f"would {verb}, is" if dry_run else f"{verb} asked, is"
            print(f"{name}: {done} {answer['state']}, tasks: {', '.join(map(str, answer['tasks'])) or 'none'}")  # type: ignore[call-overload]
    if is_data(output):
        print_document(answers, output)
    if any(answer["error"] for answer in answers):
        raise typer.Exit(1)
