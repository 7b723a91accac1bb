"""A MariaDB's binlog is purged beyond what its connector has read: refused, with the command; then silver is the table again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.incarnations.server_verdict import refuse_other, verdict
from cdc_assets.capture.preflight.inspection import preflight
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.new_epoch import open_epoch
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all


def test_read_again_in_a_new_epoch(mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = mariadb.renamed("mariapurged")
    execute, name = own.server.execute, "mariapurged-capture"
    execute("CREATE DATABASE purged", "CREATE TABLE purged.account (id int PRIMARY KEY, v varchar(20))")
    execute("INSERT INTO purged.account SELECT seq, 'first' FROM purged.seq_1_to_300")
    with small_chain(own, remote, session, tmp_path, ["purged.account"]) as chain, own.settings():
        platform, source = chain.platform, chain.source
        advance(chain)
        assert silver(chain) == table(own)
        refuse_other(Chain(platform, source))
        own.connect.stop(name)
        execute("DELETE FROM purged.account WHERE id BETWEEN 20 AND 40", "UPDATE purged.account SET v = 'lost' WHERE id > 290")
        purge(own)
        # What Debezium says of it, when nobody of ours looks before.
        own.connect.resume(name)
        until(lambda: failed(own, name), 60)
        status = own.connect.status(name)
        assert status is not None
        assert "required binlog files have been purged" in str(status.trace), status.trace
        there = Platform(
            core_bootstrap=own.bootstrap,
            lake_bootstrap=own.bootstrap,
            core_connect_url=own.connect.url,
            lake_connect_url=own.connect.url,
        )
        (finding,) = [f for f in preflight(Chain(there, source)).failures if f.check == "incarnation"]
        assert finding.mend == "cdc repair source mariapurged"
        assert "what was committed between them was purged" in finding.message
        with pytest.raises(RefusalError, match="cdc repair source mariapurged"):
            refuse_other(Chain(platform, source))
        stopped = own.connect.status(name)
        assert stopped is not None
        assert stopped.state == "STOPPED"
        epochs = open_epoch(Chain(platform, source), verdict(Chain(platform, source)).reason, print)
        assert set(epochs.values()) == {1}
        chain.fold()
        assert silver(chain) == table(own)
        execute("UPDATE purged.account SET v = 'later' WHERE id = 1", "INSERT INTO purged.account VALUES (900, 'later')")
        advance(chain)
        assert silver(chain) == table(own)
        assert verdict(Chain(platform, source)).kind == "same"
        result = chain.compare()["purged__account"]
        assert result.equal, result.sentence()


def advance(chain: SmallChain) -> None:
    """All that is committed into bronze and silver, in the epoch that bronze is in."""
    chain.live.connect.wait_running(names.connector_name(chain.source))
    chain.live.delivered()
    chain._copier.copy()
    append(Chain(chain.platform, chain.source), look(Chain(chain.platform, chain.source), chain.source.tables), "test", print)
    chain.fold()


def purge(own: LiveMariaDb) -> None:
    """Every file that there is now."""
    read = [row[0] for row in own.server.query("SHOW BINARY LOGS")]

    def gone() -> bool:
        # A file that a reader has open stays; that one is gone is noticed when it is sent something.
        own.server.execute("FLUSH BINARY LOGS")
        newest = own.server.query("SHOW BINARY LOGS")[-1][0]
        own.server.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.2)
        return not {row[0] for row in own.server.query("SHOW BINARY LOGS")} & set(read)

    until(gone, 60)


def failed(own: LiveMariaDb, name: str) -> bool:
    status = own.connect.status(name)
    return status is not None and status.failed


def silver(chain: SmallChain) -> list[tuple[Any, ...]]:
    return sorted((int(row["id"]), row["v"]) for row in values(chain.silver("purged__account")))


def table(own: LiveMariaDb) -> list[tuple[Any, ...]]:
    """The oracle: the table itself."""
    return sorted(tuple(row) for row in own.server.query("SELECT id, v FROM purged.account"))
