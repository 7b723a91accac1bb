"""A plan as Spark's EXPLAIN shows it, and what in it parses a record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame

PARSERS = re.compile(r"\b(?:from_json|from_avro|get_json_object|json_tuple)\(")


def plan_text(rows: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """The whole of it, however long."""
    conf, name = rows.sparkSession.conf, "spark.sql.maxPlanStringLength"
    shown = conf.get(name)
    conf.set(name, str(2**20))
    capsys.readouterr()
    rows.explain("simple")
    conf.set(name, shown)
    return capsys.readouterr().out
