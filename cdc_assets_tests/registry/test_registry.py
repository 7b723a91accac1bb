"""Registry files, right and wrong: each wrong one is answered with file, line, path and what is accepted."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic import ValidationError

from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.field_types import TableId, format_duration, parse_duration, parse_table
from cdc_assets.registry.kinds import DATABASES
from cdc_assets.registry.loader import load_source, load_sources
from cdc_assets.registry.name_conflicts import find_collisions
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import short_table_name

MARIADB = {"kind": "kind: mariadb"}
GOOD = """\
    source: shop
    owners: ["team:data"]
    database:
      kind: postgresql
      host: {env: SHOP_HOST}
      dbname: shop
      user: cdc
      password: {secret: shop_password}
    tables:
      - {name: public.orders}
      - {name: sales.order_line}
"""


def write(folder: Path, text: str, name: str = "shop.yaml") -> Path:
    file = folder / name
    file.write_text(dedent(text), encoding="utf-8")
    return file


def findings(file: Path) -> list[str]:
    with pytest.raises(RegistryError) as caught:
        load_source(file)
    return [str(finding).replace(str(file), "FILE") for finding in caught.value.findings]


def test_a_good_file_loads_with_defaults(tmp_path: Path) -> None:
    source = load_source(write(tmp_path, GOOD))
    assert source.name == "shop"
    assert source.batching.max_records == 500_000
    assert source.topics.retention == timedelta(hours=168)
    assert [short_table_name(table.id) for table in source.tables] == ["orders", "sales__order_line"]


def test_an_unknown_key_names_line_and_accepted_keys(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("dbname: shop", "dbname: shop\n      pasword: x"))
    assert findings(file) == [
        "FILE:7: database.pasword: unknown key; accepted: dbname, host, kind, password, port, sslmode, sslrootcert, user"
    ]


def test_an_unknown_key_of_a_table_names_the_table_s_line(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("{name: sales.order_line}", "{name: sales.order_line, primary_keys: [id]}"))
    (finding,) = findings(file)
    assert finding.startswith("FILE:11: tables.1.primary_keys: unknown key; accepted: ")
    assert "keys" in finding


def test_a_wrong_kind_lists_the_accepted_ones(tmp_path: Path) -> None:
    (finding,) = findings(write(tmp_path, GOOD.replace("postgresql", "postgres")))
    assert finding == (f"FILE:4: database.kind: no such kind, got 'postgres'; accepted: {', '.join(DATABASES)}")


def test_a_missing_key_names_the_enclosing_line(tmp_path: Path) -> None:
    (finding,) = findings(write(tmp_path, GOOD.replace("      dbname: shop\n", "")))
    assert finding == "FILE:3: database.dbname: is missing"


def test_every_finding_is_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("postgresql", "db2").replace("source: shop", "source: Shop Floor") + "    sorce: x\n"
    assert len(findings(write(tmp_path, text))) == 3


def test_what_is_wrong_is_said_in_plain_words(tmp_path: Path) -> None:
    """No word of the library that has found it."""
    text = GOOD.replace("host: {env: SHOP_HOST}", "host: h\n      port: abc\n      sslmode: foo")
    text = text.replace("name: public.orders", "name: orders, history: scd3, quarantine: {max_records: -1}")
    text += "    topics: {partitions: many, retention: 5 parsecs}\n    volumetry: []\n"
    assert sorted(finding.partition(": ")[2] for finding in findings(write(tmp_path, text))) == [
        "database.port: must be a whole number, got 'abc'",
        "database.port: must be {env: NAME}, got 'abc'",
        "database.sslmode: no such value, got 'foo'; accepted: disable, prefer, require, verify-ca, verify-full",
        "tables.0.history: no such value, got 'scd3'; accepted: scd1, scd2",
        "tables.0.name: a table is named schema.table, this has 1 part, got 'orders'",
        "tables.0.quarantine.max_records: must be 0 or more, got -1",
        "topics.partitions: must be a whole number, got 'many'",
        "topics.retention: a duration is written as number and unit: 500ms, 30s, 5m, 1h30m or 7d, got '5 parsecs'",
        "volumetry: must be a mapping (key: value), got []",
    ]


def test_a_path_is_of_the_file_alone(tmp_path: Path) -> None:
    """Not of pydantic's names for the members of a union, such as `function-after[check(), str]`."""
    file = write(tmp_path, GOOD.replace("{env: SHOP_HOST}", "{env: lower}"))
    assert findings(file) == [
        "FILE:5: database.host: must be a text",
        "FILE:5: database.host.env: is not written as it must be: ^[A-Z][A-Z0-9_]*$, got 'lower'",
    ]


def test_a_password_in_clear_is_refused(tmp_path: Path) -> None:
    (finding,) = findings(write(tmp_path, GOOD.replace("{secret: shop_password}", "hunter2")))
    assert finding.startswith("FILE:8: database.password:")


def test_a_duplicate_table_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD + "      - {name: public.orders}\n")
    assert findings(file) == ["FILE:12: tables.2.name: table public.orders is declared twice"]


@pytest.mark.parametrize(
    ("one", "other"), [("public.a-b", "public.a_b"), ("sales.t", "public.sales__t"), ("public.a$", 'public."a."')]
)
def test_names_that_collide_after_derivation_are_refused(tmp_path: Path, one: str, other: str) -> None:
    text = GOOD + f"      - name: {one}\n      - name: '{other}'\n"
    (finding,) = findings(write(tmp_path, text))
    assert finding.startswith("FILE:13: tables.3.name: ")
    assert "would both write to " in finding
    assert "declare one of them in another source" in finding


def test_a_table_called_as_another_s_history_is_refused(tmp_path: Path) -> None:
    text = GOOD + "      - {name: public.h, history: scd2}\n      - {name: public.h__history}\n"
    (finding,) = findings(write(tmp_path, text))
    assert finding.startswith("FILE:13: tables.3.name: public.h__history and public.h would both write to Delta table ")
    load_source(write(tmp_path, text.replace(", history: scd2", "")))


def test_topics_that_kafka_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    text = GOOD + "      - {name: a_b.c}\n      - {name: a.b_c}\n"
    (finding,) = findings(write(tmp_path, text))
    assert "topic 'shop.a.b_c' and 'shop.a_b.c', which the store cannot tell apart" in finding


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        # What `cdc onboard shop` makes beside the source's own, and `cdc remove shop` drops.
        ({}, {"source": "shop_onboard"}, "replication slot 'cdc_shop_onboard'"),
        ({"capture": "{slot: x, publication: p}"}, {"capture": "{slot: x_onboard, publication: q}"}, "slot 'x_onboard'"),
        # Topics of the connector itself, as Kafka compares names.
        ({"table": "eu.message"}, {"source": "shop_eu"}, "topic 'shop_eu.message' and 'shop.eu.message'"),
        ({"table": "eu.notifications"}, {"source": "shop_eu"}, "topic 'shop_eu.notifications' and 'shop.eu.notifications'"),
        ({"table": "eu.schema-history", **MARIADB}, {"source": "shop_eu", **MARIADB}, "'shop_eu.schema-history'"),
        ({"capture": "{server_id: 7}", **MARIADB}, {"capture": "{server_id: 7}", **MARIADB}, "binlog client with server_id '7'"),
    ],
)
def test_what_a_connector_makes_besides_is_nobody_else_s(
    tmp_path: Path, one: dict[str, str], other: dict[str, str], shared: str
) -> None:
    for name, chosen in {"a": one, "b": {"source": "other", **other}}.items():
        text = GOOD.replace("source: shop", f"source: {chosen.get('source', 'shop')}")
        text = text.replace("public.orders", chosen.get("table", "public.orders"))
        text = text.replace("kind: postgresql", chosen["kind"]).replace("      dbname: shop\n", "") if "kind" in chosen else text
        write(tmp_path, text + (f"    capture: {chosen['capture']}\n" if "capture" in chosen else ""), f"{name}.yaml")
    with pytest.raises(RegistryError, match="would both write to") as caught:
        load_sources(tmp_path)
    assert shared in str(caught.value)


def test_one_topic_is_mirrored_by_one_source(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    other = """\
    source: other
    kind: topics
    tables:
      - {name: orders, topic: shop.public.orders, envelope: json, keys: [id], columns: {id: integer not null}}
    """
    write(tmp_path, other, "other.yaml")
    with pytest.raises(RegistryError, match=r"would both write to mirrored topic 'core\.shop\.public\.orders'"):
        load_sources(tmp_path)


def test_two_sources_of_one_server_have_slots_of_their_own(tmp_path: Path) -> None:
    declared = "    capture: {slot: mine}\n    tables:\n"
    write(tmp_path, GOOD.replace("    tables:\n", declared))
    write(tmp_path, GOOD.replace("    tables:\n", declared).replace("source: shop", "source: other"), "other.yaml")
    with pytest.raises(RegistryError, match="would both write to replication slot 'mine'; give one of them a name"):
        load_sources(tmp_path)


def test_case_counts_where_the_store_sees_it(tmp_path: Path) -> None:
    source = load_source(write(tmp_path, GOOD + "      - {name: public.Orders}\n"))
    assert list(find_collisions([source], case_blind=False)) == []
    (found,) = find_collisions([source], case_blind=True)
    assert "silver/shop/Orders' and '<lake>/silver/shop/orders'" in found.message


def test_duplicate_yaml_keys_are_refused(tmp_path: Path) -> None:
    (finding,) = findings(write(tmp_path, GOOD + "    source: again\n"))
    assert "FILE:12" in finding
    assert "duplicate key" in finding


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    (finding,) = findings(write(tmp_path, "source: [\n"))
    assert finding.startswith("FILE:")
    assert "not valid YAML" in finding


@pytest.mark.parametrize("text", ["", "- a\n", "just text\n"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    (finding,) = findings(write(tmp_path, text))
    assert "a source is a YAML mapping" in finding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "path"),
    [
        (r'      - {name: "public.\uD83D\uDE00"}', "tables.2.name"),
        (r'      - {name: public.x, keys: [id, "k\uDC00"]}', "tables.2.keys.1"),
        (r'      - {name: public.x, "odd\uD800": 1}', "tables.2.odd\\ud800"),
    ],
)
def test_half_a_character_is_refused_in_words(tmp_path: Path, line: str, path: str) -> None:
    """It was taken, or ended in a UnicodeEncodeError: no topic, file or terminal takes such a text."""
    write(tmp_path, f"{GOOD}{line}\n")
    done = subprocess.run([sys.executable, "-m", "cdc_assets.cli", "validate", str(tmp_path)], capture_output=True, check=False)
    said = done.stderr.decode("utf-8")
    assert (done.returncode, "Traceback" in said) == (1, False), said
    assert f"shop.yaml:12: {path}: holds half a character (a surrogate)" in said
    assert r"write the character itself, in UTF-8, or as \UXXXXXXXX" in said


def test_two_files_of_one_source_are_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    with pytest.raises(RegistryError, match=r"b\.yaml:1: source: 'shop' is already declared in .*a\.yaml"):
        load_sources(tmp_path)


def test_an_empty_or_missing_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="a source is one YAML file"):
        load_sources(tmp_path)
    with pytest.raises(RegistryError, match="set CDC_SOURCES"):
        load_sources(tmp_path / "absent")


def test_models_are_frozen(tmp_path: Path) -> None:
    source = load_source(write(tmp_path, GOOD))
    with pytest.raises(ValidationError, match="frozen"):
        source.tables[0].name = "public.other"  # type: ignore[misc]


def test_json_schema_can_be_exported_for_editors() -> None:
    schema = Source.model_json_schema()
    assert set(schema["required"]) == {"source", "database", "tables"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("public.city", TableId("public", "city")),
        ('public."odd.name"', TableId("public", "odd.name")),
        ('"a""b".c', TableId('a"b', "c")),
        ("public.naïve table", TableId("public", "naïve table")),
    ],
)
def test_table_names(text: str, expected: TableId) -> None:
    assert parse_table(text) == expected
    assert parse_table(str(expected)) == expected


@pytest.mark.parametrize("text", ["city", "a.b.c", "", ".", "a.", '"a.b', "a\n.b", 'a."b"c'])
def test_table_names_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="table"):
        parse_table(text)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1h30m", 5400), ("7d", 604800)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds
    assert parse_duration(format_duration(parse_duration(text))).total_seconds() == seconds


@pytest.mark.parametrize("value", [60, "60", "1 hour", "", "-5m", None, 1.5])
def test_durations_without_a_unit_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number and unit"):
        parse_duration(value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("ignore_null_updates: true", "a NULL of a database is a value"),
        ("without_key: multiset, history: scd2", "history: scd2: without_key: multiset"),
        ("without_key: multiset, keys: [id]", "keys: without_key: multiset"),
    ],
)
def test_what_a_table_cannot_be_at_once(tmp_path: Path, more: str, said: str) -> None:
    found = findings(write(tmp_path, GOOD.replace("{name: sales.order_line}", f"{{name: sales.order_line, {more}}}")))
    assert any(said in finding for finding in found), found


def test_a_standby_is_of_the_whole_source(tmp_path: Path) -> None:
    whole = write(tmp_path, GOOD + "    reconciliation: {standby: 'replica:5432'}\n")
    assert load_source(whole).reconciliation.standby == "replica:5432"  # type: ignore[union-attr]
    one = GOOD.replace("{name: public.orders}", "{name: public.orders, reconciliation: {standby: 'replica:5432'}}")
    assert "reconciliation.standby is of the whole source" in " ".join(findings(write(tmp_path, one)))
