"""A history of which nothing is folded, with the columns that it had before it was lost, as silver gets its own (silver.seed).

The properties of the lost one say which: its schema ledger, and the columns whose changes made a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from spark.history.versions import name_versions
from spark.schema.column_ledger import DROPPED_NUMBER
from spark.schema.evolution import read_tracked
from spark.silver.seed import begin_table
from spark.specs import SilverSpec

_VALID = "_valid_from string, _valid_to string, _is_current boolean"


def run(session: SparkSession, spec: SilverSpec, properties: Mapping[str, str]) -> bool:
    """Make it, unless there is a history that has folded something; whether it is made."""
    return begin_table(session, spec, properties, _empty_history)


def _empty_history(session: SparkSession, spec: SilverSpec, ddl: str) -> DataFrame:
    return name_versions(session.createDataFrame([], f"{ddl}, {_VALID}"), spec)


def track_dropped(session: SparkSession, spec: SilverSpec) -> SilverSpec:
    """The spec, whose changes of a column that the source has dropped make versions where they have made some before."""
    dropped = {column.name for column in spec.columns if column.number == DROPPED_NUMBER}
    was = read_tracked(session, spec.path) or [] if spec.track_history else []
    return replace(spec, track_history=tuple(dict.fromkeys([*spec.track_history, *(name for name in was if name in dropped)])))
