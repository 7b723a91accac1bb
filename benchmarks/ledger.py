"""What the event ledger costs: seconds of its job beside the bronze and silver runs that it counts.

    python -m benchmarks.ledger --remote sc://HOST:PORT --bootstrap HOST:PORT [--login FILE] [--events 200000]

One table, one partition, keys spread evenly; the core topic and the mirrored topic are both on the one broker and hold the
same events. "lake" counts bronze and the fates only, "all" both topics as well. Deletes its topics at the end.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.spark_jobs import COLUMNS, Feed, client_settings, parse_arguments, timed
from spark.bronze import append_job as bronze
from spark.proof import ledger_job
from spark.proof.ledger_contract import LedgerSpec, LedgerTable
from spark.silver import fold_job as silver
from spark.specs import BronzeSpec, SilverSpec, TopicRange
from spark.table.spark_session import connect


def main() -> None:
    chosen = parse_arguments(__doc__, cycles=3)
    admin = AdminClient(client_settings(chosen))
    topics = [f"bench.public.ledger{uuid.uuid4().hex[:6]}{end}" for end in ("", "m")]
    for made in admin.create_topics([NewTopic(t, 1, 1) for t in topics]).values():
        made.result(30)
    lake = Path(tempfile.mkdtemp(prefix="cdc-bench-"))
    try:
        measure(chosen, topics, admin, lake)
    finally:
        shutil.rmtree(lake)
        for gone in admin.delete_topics(topics).values():
            gone.result(30)


def measure(chosen: argparse.Namespace, topics: list[str], admin: AdminClient, lake: Path) -> None:
    session = connect(chosen.remote)
    feeds = [Feed(client_settings(chosen), topic) for topic in topics]
    path = str(lake / "bronze")
    spec = SilverSpec("bench", "accounts", path, str(lake / "silver"), COLUMNS, ("aid",))

    def whole(topic: str) -> TopicRange:
        place = TopicPartition(topic, 0)
        end = admin.list_offsets({place: OffsetSpec.latest()})[place].result(30).offset
        return TopicRange("accounts", topic, f"id-{topic}", 0, {0: (0, end)})

    def cycle(name: str, op: str, ids: list[int]) -> None:
        for feed in feeds:
            feed.send(op, ids)
        core, mirror = map(whole, topics)
        run = timed(
            lambda: bronze.run(session, BronzeSpec(path, chosen.bootstrap, (mirror,), uuid.uuid4().hex, login=chosen.login))
        )
        run += timed(lambda: silver.run(session, spec))
        ours = LedgerSpec("bench", str(lake / "lake"), path, (LedgerTable(spec),))
        table = LedgerTable(spec, core, mirror)
        at, login = chosen.bootstrap, chosen.login
        both = replace(ours, path=str(lake / "all"), tables=(table,))
        both = replace(both, core_bootstrap=at, core_login=login, lake_bootstrap=at, lake_login=login)
        lakes, everything = timed(lambda: ledger_job.run(session, ours)), timed(lambda: ledger_job.run(session, both))
        shares = f"ledger: lake {lakes:6.2f} s ({lakes / run:4.0%})  all {everything:6.2f} s ({everything / run:4.0%})"
        print(f"{name:24} bronze+silver {run:6.2f} s  {shares}", flush=True)

    cycle("warm-up 1000", "r", list(range(1000)))
    cycle(f"first load {chosen.events}", "c", list(range(1000, 1000 + chosen.events)))
    for size in (1_000, 10_000, 100_000):
        for _ in range(chosen.cycles):
            cycle(f"changes {size}", "u", random.sample(range(chosen.events), min(size, chosen.events)))


if __name__ == "__main__":
    main()
