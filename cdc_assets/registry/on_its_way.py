"""How the records of a table are kept on their way, and what is computed of its rows behind silver."""

from __future__ import annotations

from pydantic import model_validator

from cdc_assets.registry.durations import Duration
from cdc_assets.registry.rows import Rows
from cdc_assets.registry.windowed_results import WindowedResults, refuse_windows


class OnItsWay(Rows):
    """What a table's topic is like, where it is not as `topics` of the source says, and what is computed of its rows."""

    retention: Duration | None = None
    sensitive: tuple[str, ...] = ()
    windows: tuple[WindowedResults, ...] = ()

    @model_validator(mode="after")
    def _windows_can_be_shown(self) -> OnItsWay:
        refuse_windows(self.windows, self.sensitive)
        if self.windows and self.where:
            raise ValueError("windows are compared with all rows of the source: give where or windows")
        return self

    @property
    def time_field(self) -> str:
        """The field that says when an event happened, as spark.specs.TopicRange has it; empty where the envelope knows."""
        return ""
