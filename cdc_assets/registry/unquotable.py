"""Tables that the server or Debezium's own SQL cannot name: refused where they are declared, not by the connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cdc_assets.registry.models import BaseSource

_LONGEST_IN_MARIADB = 64


def find_unquotable(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of such a table, and why."""
    judge = _JUDGES.get(getattr(getattr(source, "database", None), "kind", ""))
    for index, table in enumerate(source.tables if judge else ()):
        for part in table.id:
            if judge and (why := judge(part)):
                yield (
                    index,
                    f"{why}, got {table.name!r}; rename it at the source (ALTER TABLE … RENAME), or take it out of this file",
                )
                break


def _in_postgresql(name: str) -> str:
    """Its connector names tables in CREATE PUBLICATION, and takes a name with a quote at its begin or end for one that is quoted.

    The statement is invalid then, and no table of the source is read (io.debezium.relational.TableId.quote, 3.7).
    """
    if name.startswith('"') or name.endswith('"'):
        return "Debezium cannot publish a table or schema whose name begins or ends with a double quote"
    return ""


def _in_mariadb(name: str) -> str:
    """What the server itself takes for no name (https://mariadb.com/kb/en/identifier-names/), and what Debezium unquotes.

    It reads a table called `all` with its backticks as one called all, fails, and reads no table of the source (3.5).
    """
    if name.startswith("`") or name.endswith("`"):
        return "Debezium cannot read a table or database whose name begins or ends with a backtick"
    if name != name.rstrip():
        return "MariaDB has no table or database whose name ends in white space"
    if any(char > "\uffff" for char in name):
        return "MariaDB has no table or database with a character beyond U+FFFF in its name"
    if len(name) > _LONGEST_IN_MARIADB:
        return f"MariaDB has no table or database with a name of more than {_LONGEST_IN_MARIADB} characters"
    return ""


_JUDGES: Mapping[str, Callable[[str], str]] = {"postgresql": _in_postgresql, "mariadb": _in_mariadb}
