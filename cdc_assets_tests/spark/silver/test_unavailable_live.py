"""An update to the text that once said "as it was" everywhere; and a connector of that time that gets a text of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Written out: whatever the product calls it now, this is what stands in its public source.
PUBLIC = "cdc_assets:unchanged:6f2d9a4be1c84d3f9a57"


@contextmanager
def _updates(own: LiveSource) -> Iterator[None]:
    """Updates that leave the large values alone, without a pause."""
    over = threading.Event()

    def update() -> None:
        with own.connection() as writer:
            while not over.is_set():
                writer.execute("UPDATE public.unchanged_t SET n = n + 1 WHERE id IN (1, 2)")

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(update)
        try:
            yield
        finally:
            over.set()
        done.result()


@pytest.mark.stack
def test_an_update_to_the_public_text_is_a_value(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="unchanged")
    with own.connection() as source:
        source.execute("CREATE TABLE public.unchanged_t (id int PRIMARY KEY, n int, big text, many text[], raw bytea)")
        for column in ("big", "many", "raw"):
            source.execute(f"ALTER TABLE public.unchanged_t ALTER {column} SET STORAGE EXTERNAL")
        big = "repeat('ab', 3000)"
        row = f"INSERT INTO public.unchanged_t SELECT n, 0, {big}, ARRAY[{big}], {big}::bytea FROM generate_series(1, 4) n"
        source.execute(row)
        # A row that holds the text already when it is first read.
        source.execute("INSERT INTO public.unchanged_t VALUES (5, 0, %s, %s, %s)", (PUBLIC, [PUBLIC], PUBLIC.encode()))
        # As connectors of before are on Connect: the public text, and no header.
        own.capture(["public.unchanged_t"], unavailable__value__placeholder=PUBLIC, transforms="")
        with own.settings():
            chain = SmallChain(own, remote, tmp_path, own.source(["public.unchanged_t"]), session)
            source.execute("UPDATE public.unchanged_t SET n = 1 WHERE id = 1")
            chain.advance()
            config = capture_config(chain.source)
            with _updates(own):
                assert apply_connector(own.connect, config).changed_keys
            assert apply_connector(own.connect, config).changed_keys == ()
            source.execute("UPDATE public.unchanged_t SET n = 2 WHERE id IN (1, 2)")
            source.execute("UPDATE public.unchanged_t SET big = %s WHERE id = 3", (PUBLIC,))
            source.execute("UPDATE public.unchanged_t SET many = %s, raw = %s WHERE id = 4", ([PUBLIC], PUBLIC.encode()))
            chain.advance()
        expected = source.execute("SELECT id, n, big, many, raw FROM public.unchanged_t ORDER BY id").fetchall()
    found = sorted(tuple(row.values()) for row in values(chain.silver("public.unchanged_t")))
    assert found == [tuple(row) for row in expected]
    running = own.connect.config("unchanged-capture") or {}
    assert running["unavailable.value.placeholder"] != PUBLIC
