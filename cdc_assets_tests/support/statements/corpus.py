"""The corpus: DDL of MariaDB's and MySQL's own test suites, as facts; a statement and the definitions that it needs.

Single statements of the suites in MariaDB 10.11 and MySQL 9.7 (GPL-2.0), blanks and strings shortened; made by `harvest.py`.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KINDS = ("mariadb", "mysql")
_COMMENT = re.compile(r"\s*(/\*(?![!M]).*?\*/\s*)*", re.DOTALL)
# In this order: the first that is found names the kind.
_STATEMENTS = (
    ("create table … select", r"CREATE\s+(OR\s+REPLACE\s+)?TABLE\b(?=.*\bSELECT\b)"),
    ("create table … like", r"CREATE\s+(OR\s+REPLACE\s+)?TABLE\b(?=.*\bLIKE\b)"),
    ("create table", r"CREATE\s+(OR\s+REPLACE\s+)?TABLE\b"),
    ("temporary tables", r"(CREATE|DROP)\s+(OR\s+REPLACE\s+)?TEMPORARY\b"),
    ("alter table, partitions", r"ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE\b(?=.*\bPARTITION(S|ING)?\b)"),
    ("alter table, several clauses", r"ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE\b(?=[^(]*(\([^()]*(\([^()]*\)[^()]*)*\)[^(]*)*,)"),
    ("alter table, a column", r"ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE\b(?=.*\b(ADD|CHANGE|MODIFY|DROP|ALTER|RENAME)\s+COLUMN\b)"),
    ("alter table", r"ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE\b"),
    ("rename table", r"RENAME\s+TABLES?\b"),
    ("drop table, truncate", r"(DROP\s+TABLES?|TRUNCATE)\b"),
    ("indexes", r"(CREATE\s+(OR\s+REPLACE\s+)?(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?|DROP\s+)INDEX\b"),
    ("sequences", r"(CREATE\s+(OR\s+REPLACE\s+)?|ALTER\s+|DROP\s+)SEQUENCE\b"),
)
STATEMENTS = tuple(name for name, _ in _STATEMENTS)


@dataclass(frozen=True)
class Case:
    """`statement`, and `before`: SHOW CREATE TABLE of the tables that it names."""

    statement: str
    before: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """One of STATEMENTS."""
        return kind_of_statement(self.statement)

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.statement) + sum(map(len, self.before))


def kind_of_statement(statement: str) -> str:
    """One of STATEMENTS; empty: it defines no table."""
    text = statement[_COMMENT.match(statement).end() :]  # type: ignore[union-attr]
    return next((name for name, form in _STATEMENTS if re.match(form, text, re.IGNORECASE | re.DOTALL)), "")


def store(kind: str, cases: list[Case]) -> None:
    """Write the file, the same bytes each time."""
    lines = json.dumps([[case.statement, *case.before] for case in cases], ensure_ascii=False, indent=0)
    _file(kind).write_bytes(gzip.compress(lines.encode(), mtime=0))


@cache
def corpus(kind: str) -> tuple[Case, ...]:
    """All cases of `mariadb` or `mysql`."""
    told = json.loads(gzip.decompress(_file(kind).read_bytes()))
    return tuple(Case(statement, tuple(before)) for statement, *before in told)


def _file(kind: str) -> Path:
    return Path(__file__).with_name(f"{kind}_statements.json.gz")
