"""Maintenance beside the runs of a hostile world: again and again, with small thresholds and a short time travel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest

from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery import maintenance
from cdc_assets.recovery.maintenance import maintain_source
from cdc_assets_tests.support.live.small_chain import SmallChain
from spark.upkeep import file_rewrite, table_maintenance
from spark.upkeep.maintenance_spec import Maintained, MaintenanceSpec

TIME_TRAVEL, WORK_SECONDS = timedelta(seconds=30), 40.0
"""Longer than one run or one comparison reads a version, or has files that no commit names; below a world's length."""
BETWEEN_SECONDS = 12.0
"""Each round takes seconds of the processors, which the runs want as well."""


@dataclass
class Upkeep:
    """What was done of all tables, and what kept it from being done."""

    chain: SmallChain
    done: list[Maintained] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def maintain(self) -> None:
        """One round; what goes wrong is kept."""
        short = self.chain.source.maintenance.model_copy(update={"time_travel": TIME_TRAVEL})
        source = self.chain.source.model_copy(update={"maintenance": short})
        with self.turn:
            try:
                for _, done in maintain_source(Chain(self.chain.platform, source)):
                    self.done.append(done)
            except Exception as error:
                self.failed.append(f"{type(error).__name__}: {error}")

    def what_is_missing(self) -> list[str]:
        """Failures, and that there was nothing to do, which no world may be too small for."""
        return [*self.failed, *([] if any(each.files_rewritten for each in self.done) else ["no file was rewritten"])]


@contextmanager
def maintained(chain: SmallChain) -> Iterator[Upkeep]:
    """A thread maintains the source's tables within the block, and has ended behind it."""
    upkeep, stop = Upkeep(chain), threading.Event()

    def maintain_on() -> None:
        while not stop.wait(BETWEEN_SECONDS):
            upkeep.maintain()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_rewrite, "MOST_SMALL", 2)
        patch.setattr(table_maintenance, "CHECKPOINT_FROM", 3)
        patch.setattr(maintenance, "MaintenanceSpec", partial(MaintenanceSpec, work_seconds=WORK_SECONDS))
        thread = threading.Thread(target=maintain_on)
        thread.start()
        try:
            yield upkeep
        finally:
            stop.set()
            thread.join()
