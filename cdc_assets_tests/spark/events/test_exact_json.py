"""JSON that others write (`kind: topics`): each value is exact in silver, or its record is in quarantine; never another value.

The oracle is Python's `json` with `decimal`: it reads what was sent, and what silver has.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.lake.records import Sent, leaves_of
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    Column("id", "text"),
    Column("j", "jsonb"),
    Column("n", "numeric(38,20)"),
    Column("x", "numeric"),
    Column("d", "double precision"),
    Column("r", "real"),
    Column("w", "bigint"),
    Column("a", "numeric[]", accepted=True),
    Column("t", "text"),
)
EXACT = (
    '{"id": "j1", "j": 1e999999999}',
    '{"id": "j2", "j": {"b": 1e400, "c": [0.12345678901234567890123456789, -1E-400, 12.5], "d": "1e400 \\" 1.2345678901234567"}}',
    '{"id": "j3", "j": "{\\"a\\": 1.2345678901234567890}"}',
    '{"id": "j4", "j": {"1.2345678901234567890": "\\u00e9\\/\\ud83d\\ude00", "\\\\ud800": 1.10}}',
    '{"id": "n1", "n": 123.45678901234567890123}'.replace("0123}", "}"),
    '{"id": "n2", "x": 12345678901234567890, "w": 9223372036854775807}',
    '{"id": "n3", "n": "0.12345678901234567890", "x": "1e5"}',
    '{"id": "x1", "x": 1.00000000000000000000001}',
    '{"id": "x2", "x": 12345678901234567890123.5}',
    '{"id": "d1", "d": 0.1000000000000000055511151231257827, "r": 0.1}',
    '{"id": "d2", "d": 1.7976931348623157e308, "r": 3.4028234663852886e38}',
    '{"id": "d3", "d": 5e-324, "r": 0.0}',
    '{"id": "d4", "d": -0e5, "r": "0.000"}',
    '{"id": "a1", "a": [1.00000000000000000000001, "2.5", 12345678901234567890123.5, null]}',
    '{"id": "t1", "t": 0.12345678901234567890123456789}',
    '{"id": "s1\\ud83d\\ude00", "t": "\\\\ud800 \\\\uffff"}',
    '{"id": "s2\'", "t": "it\'s \\"1.2345678901234567890\\" \'"}',
    ' \t{"id": "w1", "w": 5}\r\n',
    '{"id": "u1", "undeclared": {"x": [1e999, 1.2345678901234567890]}, "w": 6}',
)
QUARANTINED = (
    '{"id": "q-d1", "d": "1e400"}',
    '{"id": "q-d2", "d": 1e400}',
    '{"id": "q-d3", "d": -1e999999999}',
    '{"id": "q-d4", "d": "1e-400"}',
    '{"id": "q-d5", "d": 0.00001e-400}',
    '{"id": "q-r1", "r": 1e39}',
    '{"id": "q-r2", "r": 1e-60}',
    '{"id": "q-n1", "n": 0.123456789012345678901}',
    '{"id": "q-n2", "n": 1e999999999}',
    '{"id": "q-w1", "w": 9223372036854775808}',
    '{"id": "q-w2", "w": 12345678901234567890}',
    '{"id": "q-w3", "w": 1.5}',
    '{"id": "\\ud800"}',
    '{"id": "\\ud801"}',
    '{"id": "\\uDC00\\ud800"}',
    '{"id": "q-s1", "j": {"\\ud800\\\\udc00": 1}}',
    '{"id": "q-s2", "t": "\\uFFFF1.5"}',
    '{"id": "q-s3", "t": "\uffff1.5"}',
    '{"id": "q-e1"} trailing {"id": "x"}',
    '{"id": "q-e2"}{"id": "q-e3"}',
    '{"id": "q-e4"},',
    '{"id": "q-e5"}, {"id": "x"}',
    '{"id": "q-e6"}]',
    '{"id": "q-e7"}], ["x"',
    '{"id": "q-e8", "j": [1, NaN, -Infinity]}',
    '{"id": "q-e9", "t": NaN}',
    "{'id': 'q-e10'}",
    '{"id": "q-e11", "j": {1.2345678901234567890: 1}}',
    '{"id": "q-e12", "j": [1.2345678901234567890.1]}',
    '{"id": "q-e13", "j": 01.2345678901234567890}',
)


def refuse(text: str) -> NoReturn:
    raise ValueError(text)


def exact(text: str) -> Any:
    """What a text says, numbers as they are written."""
    found = json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=refuse)
    json.dumps(found, default=str, ensure_ascii=False).encode()  # not with half a character
    return found


def wanted_of(kind: str, sent: Any) -> Any:
    """The value that silver may have of what was sent."""
    if sent is None:
        return None
    if kind in ("double precision", "real"):
        return float(sent)
    if kind == "bigint":
        return int(sent)
    if kind.startswith("numeric"):
        return [wanted_of("numeric", each) for each in sent] if isinstance(sent, list) else Decimal(sent)
    return sent if isinstance(sent, str) else str(sent)


def found_of(kind: str, value: Any) -> Any:
    """Silver's value, where that is a text of digits the number."""
    if isinstance(value, list):
        return [found_of("numeric", each) for each in value]
    return Decimal(value) if kind.startswith("numeric") and value is not None else value


def differences(sent: Mapping[str, str], path: str) -> Iterator[str]:
    """Of the rows in silver from what was sent by key."""
    for row in values(path):
        told = exact(sent[row["id"]])
        for column in COLUMNS:
            has, wants = found_of(column.source_type, row[column.name]), told.get(column.name)
            if column.source_type == "jsonb" and wants is not None:
                same = has == wants if isinstance(wants, str) else exact(has) == wants
            elif column.source_type == "real" and wants is not None:
                same = abs(has - float(wants)) <= abs(float(wants)) * 2**-24
            else:
                same = has == wanted_of(column.source_type, wants)
            if not same:
                yield f"{sent[row['id']]}: {column.name} is {row[column.name]!r}"


def folded(lake: Lake, records: list[str]) -> tuple[str, set[int]]:
    """Silver's path, and the offsets in quarantine."""
    lake.put("t", *[Record(offset, None, text) for offset, text in enumerate(records)])
    lake.append(lake.all_of("t"))
    spec = replace(lake.spec("t", COLUMNS, ["id"]), foreign=True)
    lake.fold(spec)
    return spec.path, {row["offset"] for row in rows(spec.quarantine)} if Path(spec.quarantine).exists() else set()


def test_what_others_write_is_exact_or_in_quarantine(session: SparkSession, tmp_path: Path) -> None:
    records = [*EXACT, *QUARANTINED]
    lake = Lake(session, tmp_path, form=("json", "topic"), not_compared="records of another form than the task reads")
    path, aside = folded(lake, records)
    assert [records[offset] for offset in sorted(aside)] == list(QUARANTINED)
    sent = {exact(text)["id"]: text for text in EXACT}
    assert {row["id"] for row in values(path)} == set(sent)
    assert [*differences(sent, path)] == []


@pytest.mark.all
def test_numbers_of_any_form_are_exact_or_in_quarantine(session: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(44)

    def number() -> str:
        digits = "".join(chance.choice("0123456789") for _ in range(chance.choice((1, 5, 15, 16, 17, 25))))
        text = chance.choice(("", "-")) + (digits.lstrip("0") or "0")
        if chance.random() < 0.7:
            text += "." + "".join(chance.choice("0123456789") for _ in range(chance.choice((1, 3, 12, 20))))
        if chance.random() < 0.2:
            text += chance.choice("eE") + chance.choice(("", "+", "-")) + str(chance.choice((0, 5, 20, 99, 310, 400)))
        return text

    sent = {}
    for each in range(400):
        nested = f'{{"a": [{number()}, "{number()}", {{"b{number()}": {number()}}}], "c":{number()}}}'
        fields = {"j": nested, "x": number(), "d": number(), "t": json.dumps(number() + '"\\'), "a": f"[{number()},{number()}]"}
        kept = {name: text for name, text in fields.items() if chance.random() < 0.6}
        sent[f"k{each}"] = "{" + ", ".join([f'"id": "k{each}"', *(f'"{name}": {text}' for name, text in kept.items())]) + "}"
    lake = Lake(session, tmp_path, form=("json", "topic"), not_compared="records of another form than the task reads")
    path, aside = folded(lake, list(sent.values()))
    assert [*differences(sent, path)] == []
    assert len(values(path)) + len(aside) == len(sent)
    # A double that is too large or small for its type alone is set aside here.
    for offset in aside:
        told = exact(sent[f"k{offset}"])
        assert float(told["d"]) in (0.0, float("inf"), float("-inf")), sent[f"k{offset}"]


@pytest.mark.parametrize("form", [("event-json", "topic"), ("attunity-json", "attunity"), ("debezium-unwrapped", "topic")])
def test_other_forms_keep_each_digit_too(session: SparkSession, form: tuple[str, str]) -> None:
    number = "0.12345678901234567890123456789"
    row = f'{{"id": "1", "x": {number}, "j": {{"k": [{number}, 1e400]}}}}'
    inside = {
        "event-json": f'{{"ID": "1", "Version": 1, "Source": "s", "Type": "t", "Data": {row}}}',
        "attunity-json": '{"magic": "atMSG", "type": "DT", "message": {"data": ' + row + ', "headers": {"operation": "INSERT", '
        '"changeSequence": "20260101000000000000000000000000001", "timestamp": "2026-01-01T00:00:00"}}}',
        "debezium-unwrapped": row,
    }[form[0]]
    texts = [inside, inside + " x", inside.replace('"1"', '"\\udc00"')]
    texts.append(inside.replace(row, json.dumps(row)) if form[0] == "event-json" else inside)
    columns = [Column("id", "text"), Column("x", "numeric"), Column("j", "jsonb")]
    found = leaves_of(session, form, columns, ["id"], [Sent(text, "{}") for text in texts])
    for each in (found[0], found[3]):
        assert (each["unreadable"], each["row"]["x"]) == (None, number)
        assert exact(each["row"]["j"]) == {"k": [Decimal(number), Decimal("1e400")]}
    assert [bool(each["unreadable"]) for each in found] == [False, True, True, False]


def test_a_key_and_bytes_that_are_no_text_are_no_other_key(session: SparkSession) -> None:
    columns = [Column("id", "text"), Column("v", "integer")]
    sent = [
        Sent(None, '{"id": "\\ud800"}'),
        Sent(None, '{"id": "a"} x'),
        Sent(None, b'{"id": "\xff"}'),
        Sent(None, '{"id": "a"}'),
    ]
    sent += [Sent(b'{"id": "\xff"}'), Sent(b'{"id": "\xfe"}'), Sent('{"id": "a", "v": 1}', "no JSON")]
    found = leaves_of(session, ("json", "topic"), columns, ["id"], sent)
    assert [each["unreadable"] is None for each in found] == [False, False, False, True, False, False, True]
    assert [each["row"]["id"] for each in found if each["unreadable"] is None] == ["a", "a"]


def test_long_texts_are_read_too_and_end_nothing(session: SparkSession) -> None:
    """Java's regular expressions need stack for each turn of a loop that may go back: some thousand turns end the task."""
    number = "0.12345678901234567890"
    escapes, numbers = "\\\\\\u00e9" * 200_000, ",".join([number] * 50_000)
    texts = [f'{{"id": "1", "t": "{escapes}"}}', f'{{"id": "2", "j": [{numbers}]}}']
    texts += [f'{{"id": "3", "t": "{escapes}', f'{{"id": "4", "j": [{numbers}', f'{{"id": "5", "x": {number}{"1" * 900_000}}}']
    found = leaves_of(session, ("json", "topic"), COLUMNS, ["id"], [Sent(text) for text in texts])
    assert [each["unreadable"] is None for each in found] == [True, True, False, False, False]
    assert found[0]["row"]["t"] == "\\é" * 200_000
    assert found[1]["row"]["j"] == f"[{numbers}]"


@pytest.mark.parametrize("text", [*EXACT, *QUARANTINED])
def test_cdc_reconcile_reads_the_topic_as_silver_does(text: str) -> None:
    """But for what it does not compare (digits of any number, documents, arrays), and for how far a type reaches."""
    from cdc_assets.clients.kafka import Record as KafkaRecord
    from cdc_assets.clients.topic_messages import READERS, Told, UnreadableRecordError
    from cdc_assets.clients.topic_rows import reader, value

    record, readers = (
        KafkaRecord(0, 0, 0, None, text.encode(), ()),
        {c.name: reader(c.source_type, "", written=True) for c in COLUMNS},
    )
    try:
        (change,) = READERS["json"](record, Told(["id"]))
        found = {name: value(read, change.values.get(name)) for name, read in readers.items() if read and name != "n"}
    except UnreadableRecordError:
        assert text in QUARANTINED
        return
    assert text in EXACT or text.startswith(('{"id": "q-n', '{"id": "q-r', '{"id": "q-w'))
    told = json.loads(text)
    assert found["id"] == told["id"]
    assert found["d"] == (None if told.get("d") is None else float(told["d"]))
