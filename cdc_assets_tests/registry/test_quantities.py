"""A number and its noun, everywhere: "1 rows" and "1 row(s)" do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark.errors import quantity
from spark.errors import quantity as spark_quantity

ROOT = Path(__file__).parents[2]
# `{count} rows`, `{count} closed windows`, `{count} row(s)`; of a word before the noun the text of a message has one at most.
PLURAL = re.compile(r" (?:([a-z]+) )?([a-z]+(?:s\b|\(s\)))(?!')")
_VERBS = """
    answers asks begins carries comes compares declares differs does ends expires follows gives goes has have holds is keeps
    knows lacks leads lies lists makes names needs opens plans reads refers refuses reloads runs says sends shows stands stays
    stops stores takes tells tracks warns without works writes
"""
_OTHERS = "always as its less this was"
NO_NOUNS = frozenset(f"{_VERBS} {_OTHERS}".split())
"""After a name, not a number; a verb that is missing here is to be added."""


def bare_plurals(code: str) -> Iterator[tuple[int, str]]:
    """Each f-string of a value and a plural: its line and both. No value that is known to be more than one (a constant), no
    fraction."""
    for node in ast.walk(ast.parse(code)):
        for value, text in zip(node.values, node.values[1:]) if isinstance(node, ast.JoinedStr) else ():  # noqa: B905
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            told, found = ast.unparse(value.value), PLURAL.match(str(text.value))
            if told == "p":  # A partition's number.
                continue
            fraction = value.format_spec is not None and re.search(r"\.\df", ast.unparse(value.format_spec)) is not None
            if found and not {found[1], found[2]} & NO_NOUNS and not told.strip("_").isupper() and not fraction:
                yield value.lineno, f"{{{told}}}{found[0]}"


def test_every_number_agrees_with_its_noun() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {told}"
        for folder in ("cdc_assets", "spark")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, told in bare_plurals(file.read_text(encoding="utf-8"))
    ]
    assert found == [], "take quantity(count, noun)"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('f"{n} rows of {t}"', ["{n} rows"]),
        ('f"{len(keys)} key(s) differ"', ["{len(keys)} key(s)"]),
        ('f"{n} closed windows"', ["{n} closed windows"]),
        ('f"topic {name} has {why}"', []),
        ('f"at most {MOST} keys"', []),
        ("f\"{quantity(n, 'row')} of {t}\"", []),
    ],
)
def test_the_scan_finds_what_it_is_for(code: str, found: list[str]) -> None:
    assert [told for _, told in bare_plurals(code)] == found


@pytest.mark.parametrize("say", [quantity, spark_quantity])
def test_one_and_many(say: Callable[..., str]) -> None:
    assert [say(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [say(n, "copy") for n in (1, 2)] == ["1 copy", "2 copies"]
    assert say(1, "key") + say(2, "key") == "1 key2 keys"
    assert say(12345, "record", form=",") == "12,345 records"


def test_no_message_leaves_the_plural_to_the_reader() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for folder in ("cdc_assets", "spark")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        and any(isinstance(part, ast.Constant) and re.search(r"\b(?!http|to_jsonb)\w+\(s\)", part.value) for part in node.values)
    ]
    assert found == []
