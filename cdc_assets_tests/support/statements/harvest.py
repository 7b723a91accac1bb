"""Make the corpus of a server from its own test suite: `python -m cdc_assets_tests.support.statements.harvest mariadb FOLDER`.

FOLDER has `*.test` files of the suite (Debian's packages mariadb-test-data and mysql-testsuite). Kept is what a server accepts:
one statement, shortened, with the definitions of the tables that it names as SHOW CREATE TABLE tells them before it. Statements
of one shape (names, numbers and strings aside) are one. Needs `mariadbd` or `mysqld`.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from cdc_assets_tests.support.statements.corpus import KINDS, STATEMENTS, Case, kind_of_statement, store
from cdc_assets_tests.support.statements.played import definitions, open_session, own_server

_LONGEST = 700
"""Characters of a statement, and of all definitions before it: what is longer repeats itself."""
_TOKEN = re.compile(r"'(?:[^'\\]|''|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|/\*.*?\*/|[A-Za-z_$@][\w$@]*|\d[\d.eE]*|\S", re.DOTALL)
_SUITES = ("main", "mysql-test/t", "innodb", "parts", "gcol", "vcol", "versioning", "period", "engines", "funcs_1", "innodb_gis")
_SUITES += (
    "innodb_fts",
    "innodb_zip",
    "rpl",
    "binlog",
    "json",
    "sql_sequence",
    "maria",
    "atomic",
    "type_uuid",
    "type_inet",
    "gis",
)
_FILES = re.compile(
    r"alter|create|partition|part_|type_|gcol|vcol|generated|default|check|ddl|rename|charset|ctype_|column|invisible|json|spatial"
    r"|table|index|key|versioning|period|temporal|bit|strict|blob|year|enum|null|comment|uuid|inet|sequence|online|instant"
)
_OF_A_FILE, _OF_A_KIND = 120, 450


def statements(text: str) -> Iterator[str]:
    """Those of a file of mysqltest's language, without its own commands."""
    mark, kept = ";", ""
    for line in text.splitlines():
        if not kept.strip() and (found := re.match(r"(?:--)?\s*delimiter\s+(\S+)", line.strip(), re.IGNORECASE)):
            mark = found[1] if found[1] == ";" or not found[1].endswith(mark) else found[1][: -len(mark)] or mark
            continue
        if not kept.strip() and line.lstrip().startswith(("#", "--")):
            continue
        kept += line + "\n"
        if line.rstrip().endswith(mark):
            yield kept.strip()[: -len(mark)].strip()
            kept = ""


def _without_comments(statement: str) -> str:
    return " ".join(re.sub(r"(^|\s)(#|--\s)[^'\"`\n]*$", " ", statement, flags=re.MULTILINE).split())


def shape(statement: str, names: set[str]) -> str:
    """What it has in common with others: without names, numbers and strings."""
    words = []
    for token in _TOKEN.findall(statement):
        if token[0] in "'\"":
            words.append("''")
        elif token[0].isdigit():
            words.append("0")
        else:
            plain = token.strip("`").lower()
            words.append("x" if token[0] == "`" or plain in names else plain)
    # A list of columns of one type is that of one.
    return re.sub(r"((?:^| )[^,]+ ,)(?:\1)+", r"\1", " ".join(words))


def harvest(name: str, folder: Path, server: Any) -> list[Case]:
    """The shortest statement of each shape."""
    found: dict[str, Case] = {}
    files = sorted(
        f for f in folder.rglob("*.test") if _FILES.search(f.stem) and any(f"/{suite}/" in f"{f}" for suite in _SUITES)
    )
    Random(0).shuffle(files)
    for number, file in enumerate(files):
        try:
            _play_file(server, file.read_text(encoding="utf-8", errors="replace"), f"h{number}", found)
        except Exception as error:
            print(f"{file}: {error!r}"[:200], file=sys.stderr, flush=True)
        if number % 50 == 0:
            print(f"{name}: {number} of {len(files)} files, {len(found)} statements", flush=True)
            store(name, choose(found))
    return choose(found)


def choose(found: dict[str, Case]) -> list[Case]:
    """Of each kind at most some hundred, by chance."""
    cases = [found[key] for key in sorted(found)]
    Random(0).shuffle(cases)
    by_kind = {kind: [case for case in cases if case.kind == kind][:_OF_A_KIND] for kind in STATEMENTS}
    return sorted((case for some in by_kind.values() for case in some), key=lambda case: (case.kind, case.statement))


def _play_file(server: Any, text: str, database: str, found: dict[str, Case]) -> None:
    told = (_without_comments(s) for s in statements(text))
    wanted = [s for s in told if kind_of_statement(s) and "$" not in s and "\ufffd" not in s and len(s) <= _LONGEST][:_OF_A_FILE]
    if not wanted:
        return
    with open_session(server, database) as cursor:
        for statement in wanted:
            words = {token.strip("`").lower() for token in _TOKEN.findall(statement)}
            before = definitions(cursor, database, words)
            if not _accepted(cursor, statement):
                continue
            after = definitions(cursor, database, words)
            case = Case(statement, tuple(before.values()))
            if case.size <= _LONGEST:
                key = f"{case.kind}: {shape(statement, _names(*before.values(), *after.values()) | words & {*before, *after})}"
                if key not in found or case.size < found[key].size:
                    found[key] = case
        cursor.execute(f"DROP DATABASE `{database}`")


def _names(*texts: str) -> set[str]:
    return {name.lower() for text in texts for name in re.findall(r"`([^`]+)`", text)}


def _accepted(cursor: Any, statement: str) -> bool:
    import pymysql

    for mode in ("DEFAULT", "''"):
        try:
            cursor.execute(f"SET SESSION sql_mode = {mode}")
            cursor.execute(statement)
            return True
        except pymysql.err.OperationalError as error:
            if error.args[0] in (2006, 2013, 2055):
                raise
        except pymysql.err.MySQLError:
            pass
    return False


def main(kind: str, folder: str) -> None:
    """Write the corpus."""
    assert kind in KINDS
    with tempfile.TemporaryDirectory(prefix="cdc-harvest-") as place, own_server(kind, Path(place)) as server:
        cases = harvest(kind, Path(folder), server)
    store(kind, cases)
    print(f"{kind}: {len(cases)} statements")


if __name__ == "__main__":
    main(*sys.argv[1:])
