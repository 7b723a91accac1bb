"""The names that the product's code gives, read from the code itself: aliases in SQL, columns of frames, of Arrow and of structs.

A name that is put together (`f"w_{key}"`) is known by its beginning: `w_`. So new code is looked at as the old one is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("spark", "cdc_assets")
_CALLS = {"alias": 0, "withColumn": 0, "append_column": 0, "set_column": 1, "withColumnRenamed": 1}
"""Methods that give a name, and which argument it is."""
_HINTS = (".alias(", ".withColumn", "append_column(", "set_column(", " AS ", "ORDINALITY", "generate_", "createDataFrame(")
_MANY = frozenset({"withColumns"})
_QUOTES = frozenset({"quote", "double_quote", "name_in_query"})
_TYPES = frozenset({"string", "int", "bigint", "array", "struct", "map", "binary", "boolean", "double", "date", "timestamp"})
_ALIAS = re.compile(r'\bAS "?([a-z_]\w*)')
_LISTED = re.compile(r"(?:ORDINALITY|generate_\w+\(.*?\)|unnest\(.*?\)) (?:AS )?\w+\(([a-z_][\w, ]*)\)")
_SCHEMA = re.compile(r"([a-z_]\w*) (?:string|int|bigint|boolean|timestamp|binary)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OF_DATABASES = (
    "cdc_assets/clients/databases/",
    "spark/values/canonical_forms.py",
    "spark/values/column_forms.py",
    "spark/values/hashing_dialects.py",
    "spark/values/sql_dialects.py",
)
"""Where a table's columns are always under their own names."""


@dataclass(frozen=True)
class GivenName:
    """A name, or its beginning; where it is given, and whether names of a table's own columns are written there as well."""

    name: str
    file: str
    function: str
    beside_columns: bool
    is_whole: bool = True


@cache
def given_names() -> tuple[GivenName, ...]:
    """All of them, file by file."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return tuple(name for path in files for name in _of_file(path))


def whole_names() -> list[str]:
    """Each that a column may have, once; those of the same letters in another case are one."""
    found = {given.name.lower(): given.name for given in given_names() if given.is_whole and _WORD.fullmatch(given.name)}
    return sorted(found.values())


def _of_file(path: Path) -> Iterator[GivenName]:
    text = path.read_text()
    if not any(hint in text for hint in _HINTS):
        return
    tree = ast.parse(text)
    inner = {
        id(part) for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) for part in ast.walk(each) if part is not each
    }
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef) and id(outer) not in inner:
            file = str(path.relative_to(ROOT))
            beside = file.startswith(_OF_DATABASES) or any(_called(part) in _QUOTES for part in ast.walk(outer))
            place = (file, outer.name, beside)
            yield from (GivenName(name, *place, is_whole) for name, is_whole in _of_function(outer))


def _of_function(function: ast.FunctionDef) -> Iterator[tuple[str, bool]]:
    written = {id(part) for each in ast.walk(function) if isinstance(each, ast.JoinedStr) for part in each.values}
    for part in ast.walk(function):
        called = _called(part)
        if isinstance(part, ast.Call) and called in _CALLS and len(part.args) > _CALLS[called]:
            yield from _name(part.args[_CALLS[called]])
        elif isinstance(part, ast.Call) and called in _MANY and part.args and isinstance(part.args[0], ast.Dict):
            yield from (found for key in part.args[0].keys if key is not None for found in _name(key))
        elif isinstance(part, ast.Call) and called == "createDataFrame" and len(part.args) > 1:
            yield from ((name, True) for name in _SCHEMA.findall(_text(part.args[1])))
        elif isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and id(part) not in written):
            yield from _of_sql(_text(part))


def _of_sql(text: str) -> Iterator[tuple[str, bool]]:
    if " AS " not in text and "ORDINALITY" not in text and "generate_" not in text:
        return
    for found in _ALIAS.finditer(text):
        if found[1] not in _TYPES:
            yield found[1], not text[found.end() :].startswith("{")
    for listed in _LISTED.findall(text):
        yield from ((name.strip(), True) for name in listed.split(","))


def _name(given: ast.expr) -> Iterator[tuple[str, bool]]:
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        yield given.value, True
    elif isinstance(given, ast.JoinedStr) and isinstance(given.values[0], ast.Constant):
        yield str(given.values[0].value), False


def _called(part: ast.AST) -> str:
    if not isinstance(part, ast.Call):
        return ""
    return part.func.attr if isinstance(part.func, ast.Attribute) else part.func.id if isinstance(part.func, ast.Name) else ""


def _text(part: ast.expr) -> str:
    """A text as it is, what is put into it as `{}`."""
    if isinstance(part, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in part.values)
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else ""
