"""Progress for people, on stderr: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from cdc_assets.stack.component_state import FAILED, HEALTHY, ComponentState, StackState

console = Console(stderr=True, highlight=False)
# Where no terminal sets a width, a line is as long as it is: who reads the log searches for whole sentences.
console.soft_wrap = not console.is_terminal
_LINE_SECONDS = 5.0
_COLOURS = {HEALTHY: "green", FAILED: "red", "starting": "yellow", "restarting": "red", "unhealthy": "red"}


@contextmanager
def download_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar that is advanced by bytes."""
    if not console.is_terminal:
        console.print(f"downloading {what}: {total / 1e6:.0f} MB")
        began = time.monotonic()
        yield lambda _: None
        console.print(f"downloaded {what} in {time.monotonic() - began:.1f} s")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"downloading {what}", total=total)
        yield lambda count: progress.update(task, advance=count)


@contextmanager
def status(first: str) -> Iterator[Callable[[str], None]]:
    """What is being waited for: beside a spinner on a terminal, elsewhere a line now and then when it has changed."""
    if console.is_terminal:
        with console.status(first) as shown:
            yield shown.update
        return
    console.print(first)
    last, at = first, time.monotonic()

    def say(text: str) -> None:
        nonlocal last, at
        if text != last and time.monotonic() > at + _LINE_SECONDS:
            last, at = text, time.monotonic()
            console.print(text)

    yield say


class Components:
    """The components of a stack while they start or stop. A state of `without` gets no line."""

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self._live = Live(console=console, refresh_per_second=5) if console.is_terminal else None
        self._last: dict[str, str] = {}
        self._without = without

    def __enter__(self) -> Components:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, state: StackState) -> None:
        """Show this state, where it is another one than before."""
        if self._live:
            self._live.update(_table(state))
            return
        for component in state.components:
            if self._last.get(component.name) != component.health:
                self._last[component.name] = component.health
                if component.health not in self._without:
                    console.print(_line(component))


def _line(component: ComponentState) -> str:
    took = f" in {component.started_in} s" if component.health == HEALTHY and component.started_in else ""
    detail = f" ({component.detail})" if component.detail and component.health != "starting" else ""
    return f"{component.name}: {component.health}{took}{detail}"


def _table(state: StackState) -> Table:
    table = Table.grid(padding=(0, 2))
    for component in state.components:
        colour = _COLOURS.get(component.health, "default")
        took = f"{component.started_in} s" if component.health == HEALTHY and component.started_in else ""
        table.add_row(component.name, f"[{colour}]{component.health}[/]", component.address, took or component.detail[:70])
    return table
