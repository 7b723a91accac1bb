"""`cdc up`: fetch jars, start the stack, load the examples, then the main job. Run again, it changes nothing."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.experimental import tell_experimental
from cdc_assets.cli.progress import Components, console, download_bar
from cdc_assets.errors import CdcAssetsError
from cdc_assets.stack import start
from cdc_assets.stack.components.dagster import DAEMON, WEBSERVER
from cdc_assets.stack.components.spark_cluster import MASTER, WORKERS
from cdc_assets.stack.components.spark_connect import NAME as SPARK
from cdc_assets.stack.home import Home
from cdc_assets.stack.java import java
from cdc_assets.stack.packages import require_packages
from cdc_assets.stack.plan import external_addresses, load
from cdc_assets.stack.state import HEALTHY, StackState

if TYPE_CHECKING:
    from cdc_assets.cli import main_job
    from cdc_assets.registry.models import BaseSource

_DEFINITIONS_SECONDS = 120


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
    started = start.start(home, brokers=brokers, spark=spark)
    loader = _Examples(home, names) if examples else None
    main_job = main_job and _has_work(names)
    if main_job:
        settings.export_stack_environment()
        # Two seconds of imports, while the components start.
        Thread(target=_load_definitions, daemon=True).start()
    _show_start(home, loader, whole=not main_job)

    def stands(seen: Callable[[StackState], None]) -> None:
        start.wait_healthy(home, seen=seen)
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
    """Until all stands, or what the main job begins with: that needs neither Spark, which takes longest, nor the daemon."""
    with Components() as view:

        def refresh(state: StackState) -> None:
            view.show(state)
            if loader:
                loader.look(state)

        start.wait_healthy(home, seen=refresh, without=() if whole else (MASTER, *WORKERS, SPARK, WEBSERVER, DAEMON))
    if loader:
        loader.result()


def _has_work(names: list[str]) -> bool:
    """Whether there is a source to carry; it is said where there is none."""
    if not names:
        console.print("no source is declared, so nothing is carried: CDC_SOURCES=/path/to/your/sources ./cdc up")
    return bool(names)


def _check_packages(home: Home) -> None:
    """Before the download: where cdc_assets came from a wheel, the extra `stack` may be lacking."""
    java()
    require_packages(external_addresses(home))


def _fetch_missing_jars() -> None:
    if jars := start.missing_jars():
        with download_bar("jars", sum(jar.size for jar in jars)) as advance:
            start.fetch_jars(jars, advance)


def _sources_with(*, examples: bool) -> tuple[BaseSource, ...]:
    """The declared sources, with or without the examples of ours."""
    from cdc_assets.registry_files.loader import load_sources
    from cdc_assets.stack.examples import declare_examples

    declare_examples(declared=examples)
    return load_sources(settings.sources_folder())


def _check_user_definitions() -> None:
    """Before anything is started: a module that does not load, or does not fit, is told here."""
    if named := settings.user_definitions():
        from cdc_assets.defs.user_definitions import try_user_definitions

        try_user_definitions(named)


def _take_in_news() -> None:
    """What was declared while the stack ran: Dagster has it afterwards."""
    from cdc_assets.defs.declared_chains import take_in_sources
    from cdc_assets.registry_files.loader import load_sources
    from cdc_assets.running_dagster.news import registry_news
    from cdc_assets.running_dagster.own_definitions import await_definitions

    url, folder = settings.address("CDC_DAGSTER_URL"), settings.sources_folder()
    sources = load_sources(folder)
    if news := registry_news(url, folder):
        if told := ", ".join((*news.new, *news.changed, *news.gone)):
            console.print(f"Dagster takes in {told}, of {folder}", soft_wrap=True)
        if news.definitions:
            console.print(f"Dagster takes in your definitions: {news.definitions}", soft_wrap=True)
        take_in_sources(url, sources, gone=news.gone)
        await_definitions(url, timeout=_DEFINITIONS_SECONDS)


def make_names_again(home: Home) -> None:
    """In the catalog of our own Spark server, where `cdc sql --register` was the last word; why not, where it cannot be."""
    from cdc_assets.lake_sql import kept_names

    if not kept_names.are_kept(home) or "CDC_SPARK_REMOTE" in external_addresses(home):
        return
    try:
        made = kept_names.make_names_again(home)
    except CdcAssetsError as error:
        console.print(f"names in Spark's catalog were not made again: {error}; run: ./cdc sql --register", soft_wrap=True)
    else:
        console.print(f"{made} names in Spark's catalog, as cdc sql --register has asked for")


def _load_definitions() -> None:
    """A declaration that cannot be loaded is told by the main job, which loads it again."""
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
        from cdc_assets.stack.components.postgres import NAME

        ready = any(c.name == NAME and c.health == HEALTHY for c in state.components)
        if self._own and ready and self._loading is None:
            self._loading = self._pool.submit(self._load)

    def _load(self) -> None:
        from cdc_assets.stack.examples import load_examples

        load_examples(load(self._home), self._declared)

    def result(self) -> None:
        if self._loading:
            self._loading.result()
        self._pool.shutdown()
