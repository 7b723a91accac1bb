"""Where a record of a topic says when its event happened."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdc_assets.registry.declared import Declared


class EventTime(Declared):
    """A field of the record that says when the event happened. Without it, that is when Kafka was given the record.

    `field` is its name; dots go down into objects. `form` is how it is written: an ISO text, or a number since 1970.
    """

    field: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")
    form: Literal["iso", "seconds", "milliseconds", "microseconds"] = "iso"

    @property
    def told(self) -> str:
        """As spark.specs.TopicRange has it."""
        return f"{self.form}:{self.field}"
