"""A history that must be proven: against silver, by its intervals, and folded again from all of bronze."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from cdc_assets.clients.delta_log import silver_state
from spark.proof.history_proof import Again, Proof, prove
from spark.specs import SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def proof_of(step: SilverSpec, silver: SilverSpec, part: int = 0, parts: int = 1) -> Proof:
    """The newest versions of both, which have folded the same."""
    made, held = silver_state(step.path), silver_state(silver.path)
    assert made is not None
    assert made.folded is not None
    assert held is not None
    assert held.folded is not None
    assert held.folded.topics == made.folded.topics
    return Proof(Again(step, made.folded, made.folded.bronze_version, part, parts), made.version, silver.path, held.version)


def proven(session: SparkSession, step: SilverSpec, silver: SilverSpec, *, without: Collection[str] = ()) -> tuple[int, int]:
    """Nothing is wrong, and all but the columns `without` was compared; how many versions there are, and current ones."""
    found = prove(session, proof_of(step, silver))
    assert (found.damages, found.keys, found.not_folded) == ((), 0, ""), found
    assert {*found.not_compared} == {*without}
    assert found.versions
    return found.versions, found.rows
