"""Rules that need a server we do not plant: limits, standbys, a slot near its end; the rest is planted live (control/)."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.capture.preflight.postgresql_catalogue import PostgresFacts
from cdc_assets.capture.preflight.postgresql_rules import findings
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source

GIB = 1 << 30
SERVER = {
    "version": 180000,
    "wal_level": "logical",
    "max_replication_slots": 10,
    "slots": 1,
    "idle_slots": {},
    "max_wal_senders": 10,
    "senders": 1,
    "standbys": 0,
    "keep_bytes": 10 * GIB,
    "standby": False,
    "database": "shop",
    "user": "cdc",
    "superuser": False,
    "replication": True,
    "create": True,
    "messages": {"public": [], "own": None},
}
SLOT = {
    "slot_type": "logical",
    "plugin": "pgoutput",
    "database": "shop",
    "active": True,
    "wal_status": "reserved",
    "safe_wal_size": 9 * GIB,
    "confirmed_flush_lsn": "0/1",
    "retained_bytes": 1000,
}
TABLE = {
    "key": ["id"],
    "columns": ["id", "code"],
    "unique": [["id"], ["code"]],
    "hidden": False,
    "leaves": [{"table": ["public", "orders"], "identity": "d", "columns": ["id"]}],
    "partitioned": False,
    "children": [],
    "persistence": "p",
    "owner": "cdc",
    "owned": True,
    "usage": True,
    "select": True,
    "changed": 0,
}


@pytest.fixture
def source() -> Source:
    database = {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "cdc", "password": {"secret": "shop"}}
    return Source.model_validate({"source": "shop", "database": database, "tables": [{"name": "public.orders"}]})


def bad(source: Source, slot: dict[str, Any] | None, table: dict[str, Any] = {}, **server: Any) -> dict[str, Finding]:  # noqa: B006
    tables = {TableId("public", "orders"): {**TABLE, **table}}
    facts = PostgresFacts({**SERVER, **server}, slot, None, tables, captured=False)
    return {f"{f.level} {f.check}": f for f in findings(source, facts) if f.level != "ok"}


def test_a_good_source(source: Source) -> None:
    assert bad(source, SLOT) == {}
    assert bad(source, None) == {}


def test_a_multiset_needs_whole_rows(source: Source) -> None:
    declared = {"name": "public.orders", "without_key": "multiset"}
    multiset = Source.model_validate({**source.model_dump(include={"database"}), "source": "shop", "tables": [declared]})
    found = bad(multiset, SLOT, identity("i", "id"))["fail whole_rows"]
    assert (found.mend, found.safe) == ('ALTER TABLE "public"."orders" REPLICA IDENTITY FULL', True)
    assert "fail whole_rows" not in bad(multiset, SLOT, identity("f"))
    assert bad(source, SLOT, identity("i", "id")) == {}


def identity(kind: str, *columns: str) -> dict[str, Any]:
    return {"leaves": [{**TABLE["leaves"][0], "identity": kind, "columns": list(columns) or None}]}


def test_an_identity_has_to_tell_the_key(source: Source) -> None:
    found = bad(source, SLOT, identity("i", "code"))["fail identity_columns"]
    assert "replica identity is an index (code), and a DELETE does not tell the key (id)" in found.message
    assert "keys: [code]" in found.message
    assert found.mend == 'ALTER TABLE "public"."orders" REPLICA IDENTITY DEFAULT'
    by_code = Source.model_validate(
        {**source.model_dump(include={"database"}), "source": "shop", "tables": [{"name": "public.orders", "keys": ["code"]}]}
    )
    assert bad(by_code, SLOT, identity("i", "code")) == {}
    assert bad(by_code, SLOT, identity("f")) == {}
    found = bad(by_code, SLOT)["fail identity_columns"]
    assert found.mend == 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL'


def test_no_slot_or_sender_is_free(source: Source) -> None:
    assert bad(source, SLOT, slots=10, senders=10) == {}
    found = bad(source, None, slots=10, senders=10, idle_slots={"forgotten": 7})
    assert "idle: forgotten" in found["fail max_replication_slots"].message
    assert "max_wal_senders = 14" in str(found["fail max_wal_senders"].mend)


def test_a_slot_near_its_end(source: Source) -> None:
    assert "warn slot" in bad(source, {**SLOT, "safe_wal_size": GIB})
    assert "fail slot" in bad(source, {**SLOT, "wal_status": "unreserved", "safe_wal_size": -5})
    assert "fail slot" in bad(source, {**SLOT, "invalidation_reason": "idle_timeout"})
    assert "nobody reads it" in bad(source, {**SLOT, "active": False, "retained_bytes": 2 * GIB})["warn slot_retained"].message
    assert bad(source, {**SLOT, "safe_wal_size": None}, keep_bytes=None) == {}


def test_standbys(source: Source) -> None:
    assert "pg_create_logical_replication_slot" in str(bad(source, SLOT, standbys=1)["warn slot_failover"].mend)
    assert bad(source, {**SLOT, "failover": True}, standbys=1) == {}
    assert "from version 17 on" in bad(source, SLOT, standbys=1, version=160000)["warn slot_failover"].message
    assert "fail standby" in bad(source, SLOT, standby=True, version=150000)


def test_wal_level_and_who_may_publish(source: Source) -> None:
    assert "wal_level = 'logical'" in str(bad(source, None, wal_level="replica")["fail wal_level"].mend)
    assert "may not create" in bad(source, None, create=False)["fail publication"].message
    found = bad(source, None, {"owned": False})["fail publication"]
    assert found.mend == 'CREATE PUBLICATION "cdc_shop" FOR TABLE "public"."orders"'
