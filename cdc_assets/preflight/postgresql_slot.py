"""The replication slot: it is what keeps the log for us, so a lost slot is lost changes, and a forgotten one fills the disk."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets import names
from cdc_assets.preflight.finding import Finding
from cdc_assets.preflight.postgresql_facts import END_TRANSACTION, PostgresFacts
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import Source

# From here on a person should look: an ordinary lag of our own chain stays below some 16-MB segments.
WARN_RETAINED_BYTES = 1 << 30
# Of max_slot_wal_keep_size: what is left when the warning comes.
WARN_SAFE_PART = 0.2


def slot_findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Missing, taken by others, invalidated and why, near its limit, holding back too much, not on a standby."""
    name, slot = names.slot_name(source), facts.slot
    again = f"cdc repair source {source.name}: a new epoch, with every table read again"
    if slot is None:
        if facts.captured:
            message = (
                "is gone, and with it every change since the connector's last offset (it was dropped, or a failover lost it)"
            )
            yield Finding("slot", "fail", name, message, again)
        else:
            yield Finding("slot", "ok", name, "does not exist yet; the connector makes it at its first start")
            yield from _creation(name, facts)
            yield from _failover(name, facts, failover=False)
        return
    foreign = _foreign(slot, facts)
    if foreign:
        mend = f"name another one in the registry (capture.slot), or SELECT pg_drop_replication_slot('{name}')"
        yield Finding("slot", "fail", name, f"is not one for us: {foreign}", mend)
        return
    reason = slot.get("invalidation_reason")
    if reason or slot.get("wal_status") == "lost":
        message = f"is invalidated ({reason or 'wal_removed'}): changes since its position are lost"
        yield Finding("slot", "fail", name, message, again if facts.captured else f"SELECT pg_drop_replication_slot('{name}')")
        return
    yield _health(name, slot, facts)
    yield from _retention_findings(name, slot)
    yield from _failover(name, facts, failover=bool(slot.get("failover")))


def _creation(name: str, facts: PostgresFacts) -> Iterator[Finding]:
    if facts.open:
        message = f"is made only when these are over, and the connector has no task until then: {', '.join(facts.open)}"
        yield Finding("slot_creation", "warn", name, message, END_TRANSACTION)


def _foreign(slot: dict[str, object], facts: PostgresFacts) -> str:
    wanted = {"slot_type": "logical", "plugin": "pgoutput", "database": facts.server["database"]}
    return ", ".join(f"{key} is {slot.get(key)}, not {value}" for key, value in wanted.items() if slot.get(key) != value)


def _health(name: str, slot: dict[str, object], facts: PostgresFacts) -> Finding:
    safe, keep = slot.get("safe_wal_size"), facts.server["keep_bytes"]
    raise_it = "start the connector, or ALTER SYSTEM SET max_slot_wal_keep_size = …; SELECT pg_reload_conf()"
    if slot.get("wal_status") == "unreserved" or (safe is not None and int(str(safe)) <= 0):
        message = "is about to be invalidated: it needs log beyond max_slot_wal_keep_size, gone at the next checkpoint"
        return Finding("slot", "fail", name, message, raise_it)
    if safe is not None and keep and int(str(safe)) < WARN_SAFE_PART * keep:
        message = f"has {int(str(safe)) / 2**20:.0f} MB of log left of {keep / 2**20:.0f} before it is invalidated"
        return Finding("slot", "warn", name, message, raise_it)
    state = "in use" if slot["active"] else "idle"
    return Finding("slot", "ok", name, f"{state}, {slot.get('wal_status') or 'reserved'}, at {slot.get('confirmed_flush_lsn')}")


def _retention_findings(name: str, slot: dict[str, object]) -> Iterator[Finding]:
    retained = int(float(str(slot.get("retained_bytes") or 0)))
    if retained > WARN_RETAINED_BYTES:
        message = f"holds back {retained / 2**30:.1f} GB of the source's log" + (
            "" if slot["active"] else ", and nobody reads it"
        )
        yield Finding(
            "slot_retained", "warn", name, message, "cdc get connectors: is it running? a long transaction at the source?"
        )


def _failover(name: str, facts: PostgresFacts, *, failover: bool) -> Iterator[Finding]:
    server = facts.server
    if not server["standbys"] or failover:
        return
    if server["version"] < 170000:
        message = f"the server has {quantity(server['standbys'], 'standby')}: slots survive a failover only from version 17 on"
        yield Finding("slot_failover", "warn", name, message, "after a failover: a new snapshot")
        return
    mend = (
        f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', false, false, true) before the first start of the "
        "connector (an existing one: ALTER_REPLICATION_SLOT over a replication connection), and sync_replication_slots = on"
    )
    message = f"the server has {quantity(server['standbys'], 'standby')}, and the slot is not for them: a failover loses it"
    yield Finding("slot_failover", "warn", name, message, mend)
