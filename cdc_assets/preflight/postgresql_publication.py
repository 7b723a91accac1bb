"""The rules of a source's publication: that it is there, and sends every change of every table under the table's own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.kept_settings import is_listed
from cdc_assets.preflight.finding import Finding
from cdc_assets.preflight.postgresql_facts import PostgresFacts
from cdc_assets.preflight.postgresql_tables import is_identified
from cdc_assets.quantity import quantity
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import Source
from spark.delta.identifiers import double_quote


def publication_findings(source: Source, facts: PostgresFacts) -> Iterator[Finding]:
    """Of the publication as it is; or whether the connector can make it, where there is none."""
    name, found = names.publication_name(source), facts.publication
    wanted = [table.id for table in source.tables if table.id in facts.tables]
    if found is None:
        yield from _no_publication(name, wanted, facts)
        return
    published = {TableId(schema, table) for schema, table in found["tables"]}
    leaves = {table: _leaves(facts, table) for table in wanted}
    missing = [table for table in wanted if table not in published and not (leaves[table] and leaves[table] <= published)]
    if missing and not found["puballtables"]:
        # The application cannot UPDATE or DELETE a published table without identity.
        safe = all(is_identified(facts.tables[table]) for table in missing) and found["owned"]
        yield _missing_tables(source, missing, safe=safe)
    else:
        yield Finding("publication", "ok", name, f"has all {quantity(len(wanted), 'table')}")
    if not found["pubviaroot"] and (roots := _partition_parents(wanted, facts)):
        yield _partition_names(source, roots, safe=bool(found["owned"]))
    # FOR TABLE takes in what inherits from a table, and what it is parted into.
    within = {TableId(*child["table"]) for table in wanted for child in facts.tables[table]["children"]}.union(*leaves.values())
    extra = published - set(wanted) - within - {names.signal_table(source)}
    if extra := {table for table in extra if not is_listed(".".join(table), facts.taken_in)}:
        yield _extra_tables(source, sorted(extra), is_of_all=found["puballtables"])
    yield from _publication_gaps(source, name, found["narrowed"], {*wanted}.union(*leaves.values()))
    lost = [op for op in ("insert", "update", "delete", "truncate") if not found[f"pub{op}"]]
    if lost:
        mend = f"ALTER PUBLICATION {double_quote(name)} SET (publish = 'insert, update, delete, truncate')"
        yield Finding("publication_operations", "fail", name, f"leaves out {', '.join(lost)}", mend, safe=found["owned"])


def _no_publication(name: str, wanted: Sequence[TableId], facts: PostgresFacts) -> Iterator[Finding]:
    listed = ", ".join(double_quote(*table) for table in wanted)
    unowned = [str(t) for t in wanted if not facts.tables[t]["owned"]]
    if facts.server["create"] and not unowned:
        yield Finding("publication", "ok", name, "does not exist yet; the connector makes it at its first start")
    elif listed:
        by_root = " WITH (publish_via_partition_root = true)" if _partition_parents(wanted, facts) else ""
        why = f"does not own {', '.join(unowned)}" if unowned else f"may not create in database {facts.server['database']}"
        message = f"does not exist, and role {facts.server['user']} cannot make it: it {why}"
        mend = f"CREATE PUBLICATION {double_quote(name)} FOR TABLE {listed}{by_root}"
        yield Finding("publication", "fail", name, message, mend)


def _missing_tables(source: Source, missing: Sequence[TableId], *, safe: bool) -> Finding:
    name = names.publication_name(source)
    message = (
        f"lacks {', '.join(map(str, missing))}: their changes are not decoded, and are in no event later; once it has them: "
        f"cdc onboard {source.name} {' '.join(map(str, missing))} --again"
    )
    mend = f"ALTER PUBLICATION {double_quote(name)} ADD TABLE {', '.join(double_quote(*t) for t in missing)}"
    return Finding("publication", "fail", name, message, mend, safe=safe)


def _extra_tables(source: Source, extra: Sequence[TableId], *, is_of_all: bool) -> Finding:
    """Without a DROP TABLE: where another home is about to take one of them in, its changes would be lost by that."""
    shown = ", ".join(map(str, extra[:10]))
    message = f"has tables that neither the registry nor a connector of it has: {shown}; their changes are decoded for nothing"
    mend = None if is_of_all else f"take them in: cdc onboard {source.name} {' '.join(map(str, extra))}"
    return Finding("publication_extra", "warn", names.publication_name(source), message, mend)


def _partition_names(source: Source, roots: Sequence[TableId], *, safe: bool) -> Finding:
    name = names.publication_name(source)
    message = (
        f"sends changes of {', '.join(map(str, roots))} under the names of their partitions, which are not captured: all are "
        f"lost; once that is mended: cdc reconcile {source.name} --heal, or cdc onboard {source.name} "
        f"{' '.join(map(str, roots))} --again"
    )
    mend = f"ALTER PUBLICATION {double_quote(name)} SET (publish_via_partition_root = true)"
    return Finding("publication_root", "fail", name, message, mend, safe=safe)


def _publication_gaps(
    source: Source, name: str, narrowed: Sequence[Mapping[str, Any]], captured: set[TableId]
) -> Iterator[Finding]:
    """Row filters and column lists: what they leave out is in no event."""
    unwanted = {table.id: set(table.except_column_list) for table in source.tables}
    for found in narrowed:
        table = TableId(*found["table"])
        absent = [column for column in found["left_out"] if column not in unwanted.get(table, ())]
        if table not in captured or not (absent or found["filtered"]):
            continue
        told = ["rows, by a filter"] if found["filtered"] else []
        told += [f"columns ({', '.join(absent)})"] if absent else []
        alter, of = f"ALTER PUBLICATION {double_quote(name)}", double_quote(*table)
        message = f"leaves out {' and '.join(told)} of {table}: their changes are lost"
        yield Finding("publication_filter", "fail", name, message, f"{alter} DROP TABLE {of}; {alter} ADD TABLE {of}")


def _partition_parents(tables: Sequence[TableId], facts: PostgresFacts) -> list[TableId]:
    return [table for table in tables if facts.tables[table]["partitioned"]]


def _leaves(facts: PostgresFacts, table: TableId) -> set[TableId]:
    """The partitions that hold a partitioned table's rows; none of any other table."""
    about = facts.tables[table]
    return {TableId(*leaf["table"]) for leaf in about["leaves"]} if about["partitioned"] else set()
