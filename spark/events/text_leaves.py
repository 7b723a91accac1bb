"""Bronze rows of one table to text leaves: t0, t1, ... in the order of the spec's columns, and why a record is unfit.

The leaves are what the type stage converts; whatever the envelope, they look the same from here on. Also here: the text by which
an event's own header says that it leaves a large value as it was. What forms that text takes by the column's type, spark.silver
knows.

Debezium sends days and microseconds, and that is what column types expect. Applications, Replicate and MongoDB write
`2024-02-29` and `2024-02-29 12:00:00.5`. A text with more than microseconds, with a zone where the type has none, or of
any other form stays as it is: the type stage then says that it does not fit, rather than to cut something off.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.events import field_columns
from spark.events.envelope import Envelope
from spark.events.json_records import read_foreign
from spark.events.record_readers import connector, envelope
from spark.record_formats import LARGE_HEADER, UNCHANGED_HEADER
from spark.specs import Column, SilverSpec
from spark.table.identifiers import literal
from spark.values.lake_types import lake_type
from spark.values.missing_values import missing_leaf
from spark.values.postgresql_numbers import unmark_numbers
from spark.values.type_rule import SourceType


def header_forms() -> Expression:
    """Every leaf that means "unchanged" in this event (array<string>); null where its header tells none.

    As SQL: Spark Connect's messages nest 100 levels at most, and the fold of a history comes near.
    """
    text, digits = "CAST(h.value AS STRING)", "md5(h.value)"
    # Version 3, and the variant of RFC 4122.
    variant = f"translate(substr({digits}, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab')"
    named = (
        f"substr({digits}, 1, 8), '-', substr({digits}, 9, 4), '-3', substr({digits}, 14, 3), '-', "
        f"{variant}, substr({digits}, 18, 3), '-', substr({digits}, 21, 12)"
    )
    numbers = f"transform(split({text}, ''), letter -> CAST(ascii(letter) AS STRING))"
    shapes = (
        text,
        "base64(h.value)",
        f"""concat('["', {text}, '"]')""",
        """concat('["', base64(h.value), '"]')""",
        f"""concat('["', {named}, '"]')""",
        f"concat('[', array_join({numbers}, ','), ']')",
        f"""concat('{{"', {text}, '":"', {text}, '"}}')""",
    )
    marks = f"filter(headers, h -> h.key = {literal(UNCHANGED_HEADER)})"
    return sf.expr(f"try_element_at(transform({marks}, h -> array({', '.join(shapes)})), -1)")


_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?"


def in_numbers(column: Column, text: Expression) -> Expression:
    """The text, or of a written date or time its number."""
    source = SourceType.parse(column.source_type)
    if source is None or source.array:
        return text
    if source.name == "date":
        return sf.when(text.rlike(f"^{_DAY}$"), sf.unix_date(text.try_cast("date")).cast("string")).otherwise(text)
    if source.name == "timestamp without time zone":
        return sf.when(text.rlike(f"^{_DAY}[T ]{_TIME}Z?$"), _micros(text)).otherwise(text)
    if source.name == "time without time zone":
        return sf.when(text.rlike(f"^{_TIME}$"), _micros(sf.concat(sf.lit("1970-01-01 "), text))).otherwise(text)
    return text


def _micros(text: Expression) -> Expression:
    return sf.unix_micros(text.try_cast("timestamp")).cast("string")


# A row that was read has the columns of when it was read, whatever place it takes in the log.
_AT = "IF(op <=> 'r', '~', position)"
_IMAGES = ("after", "before")
CARRIED = ("topic", "partition", "offset", "position", "op", "source_ts", "tx_id", "snapshot")


def leaf(index: int) -> str:
    """The internal name of the text of the spec's column number `index`."""
    return f"t{index}"


def fields_of(spec: SilverSpec) -> SilverSpec:
    """The spec by the fields of its events: each once, under every name that it has had."""
    names: dict[str, Column] = {}
    keys: dict[str, None] = {}
    for column in spec.columns:
        for name in (column.event_field, *column.formerly):
            names.setdefault(name, Column(name, column.source_type))
            if column.name in spec.keys:
                keys[name] = None
    plain = all(names.get(c.name) is not None and c.event_field == c.name and not c.formerly for c in spec.columns)
    return spec if plain else replace(spec, columns=tuple(names.values()), keys=tuple(keys))


def leaves(events: DataFrame, spec: SilverSpec) -> DataFrame:
    """What CARRIED names, `unreadable` (the reason, or null), `has_before`, `present` (see Envelope.images), leaves, and
    `unchanged`: the leaves that say "as it was" in this event, null where its header does not tell."""
    form, read = envelope(spec.envelope).prepare(events, spec.schema_registry, spec.schema_ids), fields_of(spec)
    records = events.select(*CARRIED, "key", "value", "headers")
    if _is_foreign(spec, form):
        records = read_foreign(records)
    late = [c for c in spec.columns if missing_leaf(c) is not None]
    if late:
        names = [c.name for c in read.columns]
        records = records.withColumn("row_fields", form.fields(sf.col("value"), names))
        if spec.multiset:
            records = records.withColumn("fields_before", form.fields(sf.col("value"), names, "before"))
    if field_columns.are_needed(spec.orders):
        records = records.withColumns({f"told_{image}": form.in_order(sf.col("value"), image) for image in _IMAGES})
        states = {f"states_{image}": field_columns.numbers_of(f"map_keys(told_{image})", spec.orders, _AT) for image in _IMAGES}
        records = records.withColumns(states)
        numbers = {f"numbers_{image}": sf.expr(f"IF(size(states_{image}) = 1, states_{image}[0], NULL)") for image in _IMAGES}
        records = records.withColumns(numbers)
    images = form.images(records, read)
    if spec.multiset:
        images = _halves(images)
    return images.select(
        *CARRIED,
        _unreadable(spec, form).alias("unreadable"),
        sf.col("row_before").isNotNull().alias("has_before"),
        header_forms().alias("unchanged"),
        _present(spec, read).alias("present"),
        *[_fitting(column, spec, form).alias(leaf(i)) for i, column in enumerate(spec.columns)],
    )


def _is_foreign(spec: SilverSpec, form: Envelope) -> bool:
    """Whether others write the records, in JSON."""
    return spec.foreign and form.in_json


def _halves(images: DataFrame) -> DataFrame:
    """A delete has the row that it takes away as its row; an update is a delete and what it leaves there."""
    op = sf.col("op")
    halves = sf.when(op == "u", sf.array(sf.lit("d"), op)).otherwise(sf.array(op))
    halved = images.withColumn("op", sf.explode(halves))
    taken = {"row_after": "row_before", "row_fields": "fields_before"}
    taken |= {f"{what}_after": f"{what}_before" for what in ("told", "states", "numbers")}
    return halved.withColumns(
        {n: sf.when(op == "d", sf.col(b)).otherwise(sf.col(n)) for n, b in taken.items() if b in images.columns}
    )


def _present(spec: SilverSpec, read: SilverSpec) -> Expression:
    """`present` by the spec's columns instead of the fields that were read."""
    numbers = {c.name: i for i, c in enumerate(read.columns)}
    indexes = [numbers[c.event_field] for c in spec.columns]
    if indexes == list(range(len(read.columns))):
        return sf.col("present")
    return sf.when(sf.col("present").isNotNull(), sf.array(*[sf.get("present", sf.lit(i)) for i in indexes]))


def _fitting(column: Column, spec: SilverSpec, form: Envelope) -> Expression:
    """The column's leaf, where no newer column of the same field takes it."""
    rivals = [c for c in spec.columns if c.event_field == column.event_field and c.since > column.since]
    text = _text(column, spec)
    if _is_foreign(spec, form):
        text = unmark_numbers(text)

    def of(kind: Column) -> Expression:
        return in_numbers(kind, text) if form.written_times else text

    def takes(newer: Column) -> Expression:
        fits = (sf.col("position") > newer.since) & lake_type(newer).convert(of(newer)).isNotNull()
        return sf.coalesce(fits, sf.lit(False))

    leaf_ = of(column)
    for newer in rivals:
        leaf_ = sf.when(~takes(newer), leaf_)
    return sf.when(takes(column), leaf_) if column.since else leaf_


def _text(column: Column, spec: SilverSpec) -> Expression:
    """The column's leaf, by its name then. A key column of a delete comes from the record's key, or the before-image."""
    live = {c.event_field for c in spec.columns}
    names = (column.event_field, *[name for name in column.formerly if name not in live])
    after = [sf.col("row_after").getField(name) for name in names]
    if column.name not in spec.keys:
        value = sf.coalesce(*after)
    else:
        keys, before = ([sf.col(image).getField(name) for name in names] for image in ("row_key", "row_before"))
        value = sf.coalesce(*keys, *after, *before)
    missing = missing_leaf(column)
    unborn = sf.col("row_after").isNotNull() & ~sf.arrays_overlap("row_fields", sf.array(*[sf.lit(name) for name in names]))
    if column.number is not None and field_columns.are_needed(spec.orders):
        if column.number < 0:
            return sf.when(_is_gone(column.event_field), value)
        value, unborn = _by_place(column, spec, value, unborn)
    return value if missing is None else sf.when(sf.coalesce(unborn, sf.lit(False)), missing).otherwise(value)


def _by_place(column: Column, spec: SilverSpec, named: Expression, unborn: Expression) -> tuple[Expression, Expression]:
    """The column's text where the order of the fields tells it, else by name; whether the event is older than the column."""

    def of(image: str) -> Expression:
        index = f"CAST(array_position(numbers_{image}, {column.number}) AS INT) - 1"
        return sf.expr(f"get(map_values(told_{image}), {index})")

    if column.name in spec.keys:
        return sf.coalesce(of("after"), of("before"), named), unborn
    without = sf.expr(f"NOT array_contains(numbers_after, {column.number})")
    return sf.when(sf.col("numbers_after").isNotNull(), of("after")).otherwise(named), sf.coalesce(without, unborn)


def _is_gone(field: str) -> Expression:
    """Whether the field is of a column that is gone, and not of one that has its name since."""
    index = f"CAST(array_position(map_keys(told_after), {literal(field)}) AS INT) - 1"
    return sf.expr(f"coalesce(get(numbers_after, {index}) = {field_columns.GONE}, true)")


def _unreadable(spec: SilverSpec, form: Envelope) -> Expression:
    """Why the envelope cannot be folded, null where it can."""
    op, before, after = sf.col("op"), sf.col("row_before"), sf.col("row_after")
    needs = connector(spec.connector).needs
    large = f"decode(try_element_at(filter(headers, h -> h.key = {literal(LARGE_HEADER)}), 1).value, 'utf-8')"
    reasons: list[tuple[Expression, str | Expression]] = [
        (sf.expr(large).isNotNull(), sf.expr(large)),
        (op.isNull(), f"the value is not {form.form}"),
        (sf.col("unfit").isNotNull(), sf.col("unfit")),
        (~op.isin("c", "u", "d", "r", "t"), "the op is none of c, u, d, r"),
        (sf.col("position").isNull(), f"the source block has no log position ({needs})"),
        (op.isin("c", "u", "r") & after.isNull(), "the event has no after-image"),
    ]
    if _is_foreign(spec, form):
        reasons.append((sf.col("foreign_fault").isNotNull(), sf.col("foreign_fault")))
    if field_columns.are_needed(spec.orders):
        several = after.isNotNull() & (sf.size("states_after") > 1)
        reasons.append((several, sf.concat(sf.lit(field_columns.UNTOLD), sf.array_join(sf.map_keys("told_after"), ", "))))
    if spec.multiset:
        reasons.append(((op == "d") & after.isNull(), "the event has no before-image; ALTER TABLE ... REPLICA IDENTITY FULL"))
    elif spec.keys:
        reasons.append(((op != "t") & sf.col("key").isNull() & after.isNull() & before.isNull(), "the event has no key"))
    else:
        unkeyed = "the table has no key, so an update or delete has no row to go to: declare its keys, or without_key: multiset"
        reasons.append((op.isin("u", "d"), unkeyed))
    answer = sf.lit(None).cast("string")
    for condition, reason in reversed(reasons):
        answer = sf.when(condition, reason).otherwise(answer)
    return answer
