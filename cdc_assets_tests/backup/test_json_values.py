"""Values that stand in their lines as JSON: only what is JSON does, each decided by itself, and its bytes come back."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_assets.backup.json_lines import Lines, are_json_objects, arrow_lines, line_runs, row_lines
from cdc_assets.backup.manifest import ManifestObject
from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets.recovery.stored_rows import parse_rows
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.backup.record_batches import ANY_DATA, as_batch

JSON = ObjectLayout("{yyyy}-{MM}-{dd}/{HH}", "json")
TEXT = st.text(st.sampled_from('a"\\/ü\u2028😀{}[],:') | st.characters(exclude_categories=["Cs"]), max_size=6)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=4)
SAID = st.builds(
    lambda value, ascii_, wide: json.dumps(
        value, ensure_ascii=ascii_, separators=(" , ", " : ") if wide else (",", ":")
    ).encode(),
    OBJECT,
    st.booleans(),
    st.booleans(),
)
# Put together of what JSON is made of: near to it, and seldom it.
NEARLY = st.lists(
    st.sampled_from(
        ['{"a":1}', '{"a":', "{", "}", "[", "]", '"', ",", '"a":', "1", "1.0e5", "-0", "01", "NaN", "\\", "nul", "null", "\t"]
    ),
    max_size=6,
).map(lambda parts: ("{" + "".join(parts) + "}").encode())
ODD = st.sampled_from(
    [
        b'{"a":1,"a":2}',
        b'{"n":1E400}',
        b'{"n":123456789012345678901234567890.10}',
        b'{"s":"\\ud800"}',
        b'{"s":"\\u0000"}',
        b"{ }",
        b'{"a":NaN}',
        b'{"a":[-Infinity]}',
        b'{"a":Inf}',
        b'{"a":"NaN, Infinity"}',
        b'{"a":1}{"b":2}',
        b'{"a":1},"offset":7,"b":{}',
        b'{"a":[{}',
        b'{"a":"}',
        b'{"a":1}\n{"b":2}',
        b"\xef\xbb\xbf{}",
        b'{"\x7f":1}',
        b'{"a field of no value (cdc_assets)":1}',
    ]
)
ANY = st.none() | SAID | NEARLY | ODD | ANY_DATA


def is_object(value: bytes | None) -> bool:
    """As Python reads JSON, with its extensions left out."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        return isinstance(json.loads((value or b"").decode(), parse_constant=refuse), dict)
    except ValueError:
        return False


def batch_of(values: list[bytes | None]) -> pa.RecordBatch:
    rows = [
        (0, n, 0, "c", "p", [{"key": "value", "value": b'"value":{}'}], b'{"size":1}', v, "t", 1, None)
        for n, v in enumerate(values)
    ]
    return as_batch([(0, -1, 0, None, None, None, None, None, None, None, None), *rows])


def lines_of(values: list[bytes | None]) -> bytes:
    return b"".join(run.lines for run in line_runs(batch_of(values), Lines("t", JSON)))


def item_of(values: list[bytes | None]) -> ManifestObject:
    return ManifestObject("k", 0, "", "", len(values), 0, 0, len(values) - 1)


@given(st.lists(SAID, min_size=1, max_size=6))
def test_what_a_serializer_writes_is_json(values: list[bytes]) -> None:
    assert all(are_json_objects(pa.array(values, pa.binary())).tolist())


@given(st.lists(ANY, min_size=1, max_size=8))
def test_only_json_is_and_each_by_itself(values: list[bytes | None]) -> None:
    found = are_json_objects(pa.array(values, pa.binary())).tolist()
    assert found == [are_json_objects(pa.array([value], pa.binary()))[0] for value in values]
    assert all(is_object(value) and b"\n" not in (value or b"") for value, told in zip(values, found, strict=True) if told)


@pytest.mark.parametrize(("text", "is_json"), [("NaN", False), ("[-Infinity]", False), ("Inf", False), ('"NaN, Inf"', True)])
def test_a_number_that_json_does_not_have(text: str, is_json: bool) -> None:
    value = f'{{"a":{text}}}'.encode()
    assert are_json_objects(pa.array([value, b'{"b":1}'], pa.binary())).tolist() == [is_json, True]
    assert parse_rows(lines_of([value]), item_of([value]), "json")["value"].to_pylist() == [value]


@given(st.lists(ANY, min_size=1, max_size=8))
def test_the_bytes_come_back(values: list[bytes | None]) -> None:
    lines = lines_of(values)
    assert parse_rows(lines, item_of(values), "json")["value"].to_pylist() == values
    told = are_json_objects(pa.array(values, pa.binary())).tolist()
    for value, is_json, line in zip(values, told, lines.decode().split("\n"), strict=False):
        read = json.loads(line)
        assert isinstance(read.get("value"), dict) == is_json
        assert ("size" in read) == is_json
        if is_json:
            assert read["value"] == json.loads(value or b"")
            assert read["size"] == len(value or b"")


@given(st.lists(st.none() | SAID | NEARLY, min_size=1, max_size=8))
def test_arrow_makes_the_same_lines(values: list[bytes | None]) -> None:
    batch, lines = batch_of(values), Lines("t", JSON)
    told = are_json_objects(batch.column("value"))
    made = arrow_lines(batch, lines, told)
    assert made is None or [line.encode() for line in made.to_pylist()] == row_lines(batch, lines, told)
    if all(b"\t" not in (value or b"") for value in values):
        assert made is not None


def test_a_deep_value_is_text_or_json_and_no_crash() -> None:
    deep: list[bytes | None] = [b'{"a":' * depth + b"1" + b"}" * depth for depth in (10, 1000, 20_000)]
    assert parse_rows(lines_of(deep), item_of(deep), "json")["value"].to_pylist() == deep


@pytest.mark.parametrize("size", [0, 6, 8, 1_000_000, -5])
def test_a_size_that_is_not_the_values_is_damage(size: int) -> None:
    values: list[bytes | None] = [b'{"a":1}', b'{"a":2}']
    lines = lines_of(values).replace(b'"size":7', b'"size":%d' % size, 1)
    with pytest.raises(BackupError, match="another size"):
        parse_rows(lines, item_of(values), "json")


def test_other_lines_than_records_are_damage() -> None:
    values: Any = [b'{"a":1}', b'{"a":2}']
    with pytest.raises(BackupError, match="no record each"):
        parse_rows(lines_of(values)[:-1], item_of(values), "json")
    with pytest.raises(BackupError, match="no record each"):
        parse_rows(b"\n" + lines_of(values), item_of(values), "json")
