"""Several sources side by side, with work that does nothing: what an edited registry, a crash and the end do to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.chain import continuous_loop
from cdc_assets.chain.continuous_loop import StreamFigures, Streams, StreamVoice
from cdc_assets.chain.continuous_source import CarriedPass, Pauses
from cdc_assets.chain.lag import TableLag
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource

TABLE = "{name: t, topic: t, envelope: json, keys: [id], columns: {id: integer not null}}"


class NoWork:
    """Nothing is ever new; each one that was made is kept."""

    made: list[NoWork]
    crash: str

    def __init__(self, _: Platform, source: BaseSource, __: Callable[[str], None]) -> None:
        self.source, self.pauses, self.passes, self.closed = source, Pauses(), 0, False
        type(self).made.append(self)

    def carry(self) -> CarriedPass:
        self.passes += 1
        if self.source.name == self.crash:
            raise ValueError("a fault of ours")
        return CarriedPass()

    def wait(self, seconds: float) -> bool:
        time.sleep(min(seconds, 0.01))
        return False

    def lags(self) -> Mapping[str, TableLag]:
        return {"t": TableLag(0)}

    def close(self, _: float) -> bool:
        self.closed = True
        return True


class Run:
    """Streams over a folder, in a thread of the test's."""

    def __init__(self, folder: Path, platform: Platform, *, until_caught_up: bool = False) -> None:
        self.stop, self.lines, self.last = threading.Event(), list[str](), dict[str, StreamFigures]()
        self.error: BaseException | None = None
        voice = StreamVoice(lambda source, text: self.lines.append(f"{source} {text}"), lambda *_: None)
        self.streams = Streams(platform, load_sources(folder), voice, until_caught_up=until_caught_up)
        self.thread = threading.Thread(target=self._run, args=(folder,))
        self.thread.start()

    def _run(self, folder: Path) -> None:
        try:
            self.last = dict(self.streams.run(self.stop, folder))
        except ValueError as error:
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place: Any = type("Work", (NoWork,), {"made": [], "crash": ""})
    monkeypatch.setattr(continuous_loop, "SourceWork", place)
    monkeypatch.setattr(continuous_loop, "_FILES_SECONDS", 0.05)
    (tmp_path / "sources").mkdir()
    for name in ("feeds", "shop"):
        declare(tmp_path / "sources", name)
    yield tmp_path / "sources"
    assert all(each.closed for each in place.made)


def declare(folder: Path, name: str, more: str = "") -> None:
    draft = folder / f"{name}.draft"
    draft.write_text(f"source: {name}\nkind: topics\ncluster: lake\n{more}tables:\n  - {TABLE}\n")
    draft.replace(folder / f"{name}.yaml")


def made() -> list[NoWork]:
    found: Any = continuous_loop.SourceWork
    return list(found.made)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.01)


def test_all_end_together_with_their_last_figures(folder: Path, platform: Platform) -> None:
    run = Run(folder, platform)
    until(lambda: len(made()) == 2 and all(each.passes for each in made()))
    run.end()
    assert (set(run.last), run.error) == ({"feeds", "shop"}, None)


def test_until_caught_up_they_end_by_themselves(folder: Path, platform: Platform) -> None:
    run = Run(folder, platform, until_caught_up=True)
    run.thread.join(30)
    assert not run.thread.is_alive()
    assert all(figures.is_caught_up for figures in run.last.values())


def test_an_edited_source_goes_on_as_it_is_declared_now(folder: Path, platform: Platform) -> None:
    run = Run(folder, platform)
    until(lambda: len(made()) == 2)
    declare(folder, "feeds", "batching: {max_records: 7}\n")
    until(lambda: len(made()) == 3)
    assert made()[2].source.batching.max_records == 7
    assert made()[0].closed
    (folder / "shop.yaml").rename(folder / "shop.yaml.removed")
    until(lambda: "shop is declared no longer, and ends" in run.lines)
    (folder / "feeds.yaml").write_text("source: feeds\nkind: nothing\n")
    until(lambda: any(line.startswith("registry is broken") for line in run.lines))
    assert run.thread.is_alive()
    run.end()
    assert len(made()) == 3


def test_a_fault_of_ours_ends_all_and_is_raised(folder: Path, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous_loop.SourceWork, "crash", "shop")
    run = Run(folder, platform)
    run.thread.join(30)
    assert isinstance(run.error, ValueError)
