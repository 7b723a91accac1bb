"""The verbs of the embedded stack: `up`, `down`, and what one asks of it while it runs (`env`, `logs`, `traffic`).

Up fetches jars, starts what runs, loads the examples, then runs the main job; run again, it changes nothing. Down keeps the data,
but with --wipe. Addresses are shell exports (`eval "$(./cdc env)"`); traffic is pgbench's TPC-B against the example `bank`.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.declared_sources import tell_experimental
from cdc_assets.cli.progress import Components, console, download_bar
from cdc_assets.cli.verb_frame import verb
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import visible_lines
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.stack import supervisor
from cdc_assets.stack.component_plan import external_addresses, load
from cdc_assets.stack.component_state import HEALTHY, StackState, tail
from cdc_assets.stack.components.dagster_services import DAEMON, WEBSERVER
from cdc_assets.stack.components.postgres_server import binary
from cdc_assets.stack.components.spark_cluster import MASTER, WORKERS
from cdc_assets.stack.components.spark_connect_server import NAME as SPARK
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.runtimes import java, require_packages
from cdc_assets.stack.stack_errors import StackError
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.cli import main_job
    from cdc_assets.registry.source_declaration import BaseSource

_DEFINITIONS_SECONDS = 120


@verb()
def up(
    brokers: Annotated[int | None, typer.Option(help="Brokers per Kafka cluster: 1 or 3 (with replication factor 3).")] = None,
    spark: Annotated[
        str | None,
        typer.Option(help="local: one JVM. standalone: a master and two workers, each with an executor. Remembered."),
    ] = None,
    examples: Annotated[bool, typer.Option(help="Have the example sources, where they are declared.")] = True,
    main_job: Annotated[
        bool, typer.Option(help="Then carry the sources through to silver and backup, and show the result.")
    ] = True,
) -> None:
    """Start everything, wait until it is healthy, and run the main job."""
    home = Home(settings.home())
    began = time.monotonic()
    declared = _sources_with(examples=examples)
    tell_experimental(declared)
    names = [source.name for source in declared]
    _check_user_definitions()
    _check_packages(home)
    _fetch_missing_jars()
    started = supervisor.start(home, brokers=brokers, spark=spark)
    loader = _Examples(home, names) if examples else None
    main_job = main_job and _has_work(names)
    if main_job:
        settings.export_stack_environment()
        # Two seconds of imports, while the components start.
        Thread(target=_load_definitions, daemon=True).start()
    _show_start(home, loader, whole=not main_job)

    def stands(seen: Callable[[StackState], None]) -> None:
        supervisor.wait_healthy(home, seen=seen)
        if not started:
            _take_in_news()
        what = "started" if started else "was running already"
        console.print(f"[green]stack {what}[/green], healthy after {time.monotonic() - began:.1f} s; state in {home.root}")
        make_names_again(home)

    if main_job:
        _run_main_job(stands)
    else:
        stands(lambda _: None)


def _show_start(home: Home, loader: _Examples | None, *, whole: bool) -> None:
    # Until all stands, or what the main job begins with: that needs neither Spark, which takes longest, nor the daemon.
    with Components() as view:

        def refresh(state: StackState) -> None:
            view.show(state)
            if loader:
                loader.look(state)

        supervisor.wait_healthy(home, seen=refresh, without=() if whole else (MASTER, *WORKERS, SPARK, WEBSERVER, DAEMON))
    if loader:
        loader.result()


def _check_packages(home: Home) -> None:
    # Before the download: where cdc_assets came from a wheel, the extra `stack` may be lacking.
    java()
    require_packages(external_addresses(home))


def _fetch_missing_jars() -> None:
    if jars := supervisor.missing_jars():
        with download_bar("jars", sum(jar.size for jar in jars)) as advance:
            supervisor.fetch_jars(jars, advance)


def _sources_with(*, examples: bool) -> tuple[BaseSource, ...]:
    from cdc_assets.registry.loader import load_sources
    from cdc_assets.stack.examples.example_sources import declare_examples

    declare_examples(declared=examples)
    return load_sources(settings.sources_folder())


def _check_user_definitions() -> None:
    # Before anything is started: a module that does not load, or does not fit, is told here.
    if named := settings.user_definitions():
        from cdc_assets.defs.code_location import try_user_definitions

        try_user_definitions(named)


def _take_in_news() -> None:
    from cdc_assets.defs.source_chain import take_in_sources
    from cdc_assets.operations.own_definitions import await_definitions
    from cdc_assets.operations.registry_reload import registry_news
    from cdc_assets.registry.loader import load_sources

    url, folder = settings.address("CDC_DAGSTER_URL"), settings.sources_folder()
    sources = load_sources(folder)
    if news := registry_news(url, folder):
        if names_told := ", ".join((*news.new, *news.changed, *news.gone)):
            console.print(f"Dagster takes in {names_told}, of {folder}", soft_wrap=True)
        if news.definitions:
            console.print(f"Dagster takes in your definitions: {news.definitions}", soft_wrap=True)
        take_in_sources(url, sources, gone=news.gone)
        await_definitions(url, timeout=_DEFINITIONS_SECONDS)


def make_names_again(home: Home) -> None:
    """In the catalog of our own Spark server, where `cdc sql --register` was the last word; why not, where it cannot be."""
    from cdc_assets.reading import spark_catalog

    if not spark_catalog.are_kept(home) or "CDC_SPARK_REMOTE" in external_addresses(home):
        return
    try:
        made = spark_catalog.make_names_again(home)
    except CdcAssetsError as error:
        console.print(f"names in Spark's catalog were not made again: {error}; run: ./cdc sql --register", soft_wrap=True)
    else:
        console.print(f"{made} names in Spark's catalog, as cdc sql --register has asked for")


def _load_definitions() -> None:
    # A declaration that cannot be loaded is told by the main job, which loads it again.
    with suppress(CdcAssetsError):
        importlib.import_module("cdc_assets.definitions")


def _run_main_job(stands: main_job.Stands) -> None:
    from cdc_assets.cli import main_job

    main_job.run(stands)


class _Examples:
    """Loads the example sources as soon as PostgreSQL is healthy, while the slower components still start."""

    def __init__(self, home: Home, declared: list[str]) -> None:
        self._home, self._declared = home, declared
        self._pool = ThreadPoolExecutor(1)
        self._loading: Future[None] | None = None
        self._own = "CDC_POSTGRES_HOST" not in external_addresses(home)

    def look(self, state: StackState) -> None:
        from cdc_assets.stack.components.postgres_server import NAME

        ready = any(c.name == NAME and c.health == HEALTHY for c in state.components)
        if self._own and ready and self._loading is None:
            self._loading = self._pool.submit(self._load)

    def _load(self) -> None:
        from cdc_assets.stack.examples.example_sources import load_examples

        load_examples(load(self._home), self._declared)

    def result(self) -> None:
        if self._loading:
            self._loading.result()
        self._pool.shutdown()


@verb()
def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove all local state as well: databases, topics, lake.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --wipe: do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and do nothing.")] = False,
) -> None:
    """Stop the stack. --wipe first names what stays in your own databases, and the command that removes it."""
    home = Home(settings.home())
    if wipe:
        print(f"{home.root}: databases, topics, backups in the embedded stores, and {quantity(_tables(home), 'Delta table')}")
        for trace in _tell_traces_outside(home):
            print(trace, file=sys.stderr)
    if dry_run:
        return
    if wipe and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("--wipe removes all of it, and nobody can be asked here: cdc down --wipe --yes")
        typer.confirm("Remove all of it? There is no way back.", abort=True)
    with Components(without=(HEALTHY,)) as view:
        stopped = supervisor.stop(home, seen=view.show, discard=wipe)
    console.print("stopped" if stopped else f"nothing was running in {home.root}")
    if wipe:
        supervisor.wipe(home)
        console.print(f"removed {home.root}")


def _tables(home: Home) -> int:
    return sum(1 for _ in home.lake.rglob("_delta_log"))


def _tell_traces_outside(home: Home) -> Iterator[str]:
    """Each source whose database is not the embedded one, with what that database keeps for us."""
    from cdc_assets.recovery.source_traces import traces_of
    from cdc_assets.registry.loader import load_sources

    try:
        sources = load_sources(settings.sources_folder())
    except CdcAssetsError as error:
        yield f"what stays at your sources cannot be told: {error}"
        return
    for source in sources:
        try:
            traces = traces_of(source)
            if traces is None or _is_embedded(home, source):
                continue
            traces_found = ", ".join(trace.what for trace in traces.find())
            stays = f"{traces_found} at {traces.place}" if traces_found else ""
        except CdcAssetsError as error:
            stays = f"its database cannot be asked what it keeps ({error})"
        if stays:
            yield f"source {source.name}: stays at the source: {stays}"
            yield f"  remove it before: cdc remove {source.name}"
            yield f"  or afterwards, with the secret given again: cdc remove {source.name} --keep connector,mirror"


def _is_embedded(home: Home, source: BaseSource) -> bool:
    database: Any = getattr(source, "database", None)
    if "CDC_POSTGRES_HOST" in external_addresses(home):
        return False
    at = settings.resolve(database.host), settings.resolve(database.port)
    return at == (settings.lookup("CDC_POSTGRES_HOST"), settings.lookup("CDC_POSTGRES_PORT"))


@verb()
def env() -> None:
    """Print `export NAME=value` for every address, so that `dagster` and `dg` are found and work on the running stack."""
    home = Home(settings.home())
    environment = read_json(home.stack).get("environment")
    if not environment:
        raise StackError("env", f"no stack has run in {home.root}", "./cdc up")
    for name, value in sorted(environment.items()):
        print(f"export {name}={shlex.quote(value)}")
    # Dagster imports the instance's storage from here before it looks at the current folder.
    _print_before("PYTHONPATH", Path(__file__).parents[3])
    _print_before("PATH", Path(sys.executable).parent)
    # The stack's own dagster.yaml refers to it, and a shell that is to use that instance needs it: by its file, not its value.
    _print_text_of("CDC_DAGSTER_DB_PASSWORD", home.private_file("dagster_db_password"))
    # PySpark's own client finds the token of the stack's Spark here, also in assets that are not ours.
    if key := read_json(home.stack).get("keys", {}).get(environment.get("CDC_SPARK_REMOTE")):
        _print_text_of("SPARK_CONNECT_AUTHENTICATE_TOKEN", Path(key))


def _print_text_of(name: str, file: Path) -> None:
    if file.exists():
        print(f'export {name}="$(cat {shlex.quote(str(file))})"')


def _print_before(name: str, folder: Path) -> None:
    print(f'export {name}={shlex.quote(str(folder))}"${{{name}:+:${name}}}"')


@verb()
def logs(
    component: Annotated[str, typer.Argument(help="A name that `cdc status` shows, or supervisor.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it grows.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", help="How many of the last lines.")] = 50,
) -> None:
    """Print a component's log."""
    home = Home(settings.home())
    file = home.log(component)
    if not file.exists():
        stems = ", ".join(sorted(path.stem for path in (home.root / "logs").glob("*.log"))) or "none yet"
        raise StackError("logs", f"no log of {component!r} in {home.root}; there are: {stems}", "./cdc status")
    print(visible_lines("\n".join(tail(file, lines))))
    if not follow:
        return
    position = file.stat().st_size
    while True:
        size = file.stat().st_size
        if size < position:
            position = 0
        if size > position:
            with file.open("rb") as stream:
                stream.seek(position)
                sys.stdout.write(visible_lines(stream.read().decode("utf-8", "replace")))
                position = stream.tell()
            sys.stdout.flush()
        time.sleep(0.3)


@verb()
def traffic(
    rate: Annotated[float, typer.Option(help="Transactions per second.")] = 50,
    seconds: Annotated[int, typer.Option(help="For how long.")] = 60,
    clients: Annotated[int, typer.Option(help="Connections.")] = 2,
) -> None:
    """Write to the bank while it is captured."""
    home = Home(settings.home())
    if not (home.secrets / "bank_db_password").exists():
        raise StackError("traffic", f"the example source bank is not loaded in {home.root}", "./cdc up")
    command = [binary("pgbench"), "--no-vacuum", f"--rate={rate}", f"--time={seconds}", f"--client={clients}", "--progress=10"]
    command += [
        "-h",
        settings.address("CDC_POSTGRES_HOST"),
        "-p",
        settings.address("CDC_POSTGRES_PORT"),
        "-U",
        "bank_cdc",
        "bank",
    ]
    # In the environment, not on the command line, which every user can read.
    result = subprocess.run(command, env={**os.environ, "PGPASSWORD": home.secret("bank_db_password")}, check=False)
    if result.returncode:
        raise StackError("traffic", f"pgbench exited with {result.returncode}", "./cdc status")


def _has_work(names: list[str]) -> bool:
    if not names:
        console.print("no source is declared, so nothing is carried: CDC_SOURCES=/path/to/your/sources ./cdc up")
    return bool(names)
