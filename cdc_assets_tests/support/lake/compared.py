"""A folded table of a small lake as a comparison takes it."""

from __future__ import annotations

from cdc_assets.clients.delta_log import bronze_committed, silver_state
from cdc_assets.clients.delta_rows import plain_table
from cdc_assets_tests.support.lake.lake import Lake
from spark.proof.bucket_sums import Task
from spark.proof.snapshot_cut import Cut
from spark.proof.table_at_cut import Base
from spark.specs import SilverSpec


def task_of(lake: Lake, spec: SilverSpec, cut: Cut, *, by_files: bool = False) -> Task:
    """The table as it is now, at the cut; `by_files` reads it so where it can be."""
    state, committed = silver_state(spec.path), bronze_committed(lake.bronze_path)
    assert state is not None
    assert state.folded is not None
    assert committed is not None
    plain = plain_table(spec.path, state.version) if by_files else None
    return Task(spec, Base(state.version, state.folded, committed, None, "none", plain=plain), cut)
