"""An epoch that is being opened, killed at each step: half a reading is begun anew, a whole one is not repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.incarnations.server_facts import Memory
from cdc_assets.chain import new_epoch
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.a"}],
    }
)
STEPS = ["stop", "bound", "forget", "read", "append"]


class KilledError(Exception):
    """In the middle of a step."""


@pytest.mark.parametrize("killed", STEPS)
def test_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    done: list[str] = []
    dying = [killed]

    def step(name: str) -> Any:
        def run(*_: Any) -> None:
            if dying == [name]:
                dying.clear()
                raise KilledError(name)
            done.append(name)

        return run

    def adopted(_: Chain[Source], memory: Memory) -> dict[str, int]:
        memory.opening = None
        memory.save()
        return {"topic": 1}

    monkeypatch.setattr(new_epoch, "_RUN", {name: step(name) for name in STEPS[:-1]})
    monkeypatch.setattr(new_epoch, "_adopt_server", adopted)
    with pytest.raises(KilledError):
        new_epoch.begin_epoch(Chain(None, SOURCE), "restored", step("append"), print)  # type: ignore[arg-type]
    assert Memory.of("shop").opening is not None
    assert new_epoch.begin_epoch(Chain(None, SOURCE), "another word", step("append"), print) == {"topic": 1}  # type: ignore[arg-type]
    before = STEPS[: STEPS.index(killed)]
    assert done == [*before, *(["append"] if killed == "append" else STEPS)]
    assert Memory.of("shop").opening is None


def test_a_source_without_a_reading_of_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    never = SOURCE.model_copy(update={"capture": SOURCE.capture.model_copy(update={"snapshot": "no_data"})})
    with pytest.raises(RefusalError, match="no_data"):
        new_epoch.begin_epoch(Chain(None, never), "restored", lambda *_: None, print)  # type: ignore[arg-type]
