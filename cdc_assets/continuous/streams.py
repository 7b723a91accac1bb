"""Several sources in loops side by side, each in a thread; a source whose declaration changes goes on with the new one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.continuous.keep_carrying import ContinuousLoop, Listener, StreamFigures
from cdc_assets.continuous.source_work import SourceWork
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.declaration_changes import Stamps, stamps_of
from cdc_assets.registry_files.digest import digest
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.resources.platform import Platform

_CLOSE_SECONDS = 60.0
_FILES_SECONDS = 2.0


@dataclass(frozen=True)
class StreamVoice:
    """Whom the streams tell, from whatever thread: of a source its lines and its figures."""

    say: Callable[[str, str], None]
    figures: Callable[[str, StreamFigures], None]
    every: float = 5.0


class _Thread(threading.Thread):
    """One source, until it is stopped or its declaration is another one."""

    def __init__(self, platform: Platform, source: BaseSource, voice: StreamVoice, until_caught_up: bool) -> None:
        super().__init__(name=source.name, daemon=True)
        self.source, self.over = source, threading.Event()
        self.last: StreamFigures | None = None
        self.crash: Exception | None = None
        self._platform, self._voice, self._until = platform, voice, until_caught_up

    def run(self) -> None:
        """The loop; what it raises is kept for whoever started it."""
        name = self.source.name
        listener = Listener(
            is_over=self.over.is_set,
            tell_figures=lambda figures: self._voice.figures(name, figures),
            say=lambda text: self._voice.say(name, text),
            every=self._voice.every,
        )
        try:
            with open_work(self._platform, self.source, listener.say) as work:
                self.last = ContinuousLoop(work, listener).run(until_caught_up=self._until)
        except Exception as error:  # noqa: BLE001 - raised again where the thread is joined
            self.crash = error


@contextmanager
def open_work(platform: Platform, source: BaseSource, say: Callable[[str], None]) -> Iterator[SourceWork]:
    """A source's work; at the end what is under way ends, or is left to Spark."""
    work = SourceWork(platform, source, say)
    try:
        yield work
    finally:
        if not work.close(_CLOSE_SECONDS):
            say("a fold is left to Spark: its commit may still come, and nothing is lost or done twice by that")


class Streams:
    """The chosen sources of a registry folder."""

    def __init__(self, platform: Platform, sources: Iterable[BaseSource], voice: StreamVoice, *, until_caught_up: bool) -> None:
        self._platform, self._voice, self._until = platform, voice, until_caught_up
        self._threads = {source.name: self._start(source) for source in sources}
        self._stamps: Stamps = ()

    def run(self, stop: threading.Event, folder: Path) -> Mapping[str, StreamFigures]:
        """Until `stop`, or until all are caught up where that was asked for: the last figures of each source.

        Raises:
            Exception: as a loop has raised it; the others have ended then, too.
        """
        while not stop.wait(_FILES_SECONDS if self._is_alive() else 0) and self._is_alive():
            if any(thread.crash for thread in self._threads.values()):
                break
            self._take_in(folder)
        return self._end()

    def _is_alive(self) -> bool:
        return any(thread.is_alive() for thread in self._threads.values())

    def _start(self, source: BaseSource) -> _Thread:
        thread = _Thread(self._platform, source, self._voice, self._until)
        thread.start()
        return thread

    def _take_in(self, folder: Path) -> None:
        """What the registry says by now, where its files have changed; while it is broken, what it said before goes on."""
        stamps = stamps_of(folder)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            declared = {source.name: source for source in load_sources(folder)}
        except RegistryError as error:
            self._voice.say("registry", f"is broken, what was loaded before goes on: {error}")
            return
        for name, thread in self._threads.items():
            if not thread.is_alive() or (name in declared and digest(declared[name]) == digest(thread.source)):
                continue
            thread.over.set()
            thread.join()
            if name in declared:
                self._voice.say(name, "goes on as it is declared now")
                self._threads[name] = self._start(declared[name])
            else:
                self._voice.say(name, "is declared no longer, and ends")

    def _end(self) -> dict[str, StreamFigures]:
        for thread in self._threads.values():
            thread.over.set()
        for thread in self._threads.values():
            thread.join()
        for thread in self._threads.values():
            if thread.crash:
                raise thread.crash
        return {name: thread.last for name, thread in self._threads.items() if thread.last}
