"""The peers of one measurement, started and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench.peers.delta_rs import DeltaRs
from benchmarks.bench.peers.peer import Peer
from benchmarks.bench.peers.spark_peers import ForeachBatch, IcebergMerge, SparkDriver
from benchmarks.bench.stack import BenchStack
from cdc_assets.clients.platform import Platform


@contextmanager
def start_peers(stack: BenchStack, folder: Path, say: Callable[[str], None], *, long: bool) -> Iterator[Sequence[Peer]]:
    """Two on a Spark of their own and one in this process, with tables below `folder`; `long`: foreachBatch
    too, whose runs are the longest."""
    say("the peers' Spark starts; they write one table for each topic, this product bronze and silver")
    kafka = Platform().lake_kafka()
    driver = SparkDriver(stack.home, folder / "peers", stack.spark)
    try:
        streams = (ForeachBatch(kafka, driver),) if long else ()
        yield IcebergMerge(kafka, driver), *streams, DeltaRs(kafka, folder / "delta-rs")
    finally:
        driver.close()
