"""What SHOW GRANTS of MySQL and MariaDB allows, by where it holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.registry.identifiers import TableId

Grants = Mapping[str, Mapping[str, frozenset[str]]]
"""GRANT and REVOKE (MySQL's partial revokes): privileges by `*.*`, `` `db`.* `` or `` `db`.`table` ``."""

_LINE = re.compile(r"^(GRANT|REVOKE) (.+?) ON (?:TABLE )?(\S.*?) (?:TO|FROM) ", re.IGNORECASE)
_NAME = re.compile(r"`((?:[^`]|``)+)`|(\*)")


def parse_grants(rows: Sequence[Sequence[Any]]) -> Grants:
    """Of the role and of the roles that are active; privileges of single columns are none of a table."""
    found: dict[str, dict[str, frozenset[str]]] = {"GRANT": defaultdict(frozenset), "REVOKE": defaultdict(frozenset)}
    for row in rows:
        line = _LINE.match(str(row[0]))
        if line:
            privileges = {one.strip().upper() for one in re.split(r",(?![^(]*\))", line[2])}
            found[line[1].upper()][line[3]] |= privileges
    return found


def may(rights: Grants, privilege: str | tuple[str, ...], table: TableId | None = None) -> bool:
    """Everywhere, or with one table; of several names of a privilege one is enough."""
    names = {privilege} if isinstance(privilege, str) else {*privilege}
    names |= {"ALL PRIVILEGES", "ALL"}
    scopes = [scope for scope, held in rights["GRANT"].items() if held & names]
    if table is None:
        return "*.*" in scopes
    revoked = any(held & names and _covers(scope, table, literal=True) for scope, held in rights["REVOKE"].items())
    # A partial revoke takes from what is granted everywhere, and from nothing else.
    return any(scope != "*.*" or not revoked for scope in scopes if _covers(scope, table))


def account(answer: Sequence[Sequence[Any]] | None, user: str) -> str:
    """`'cdc'@'10.%'` as the server knows the role, else the name with any host."""
    name, _, host = str(answer[0][0]).rpartition("@") if answer else (user, "@", "%")
    return "@".join("'" + part.replace("'", "''") + "'" for part in (name, host))


def _covers(scope: str, table: TableId, *, literal: bool = False) -> bool:
    parts = [found[1].replace("``", "`") if found[1] else None for found in _NAME.finditer(scope)]
    if len(parts) != 2:
        return False
    schema, name = parts
    if name is not None:
        return (schema, name) == (table.schema, table.table)
    if schema is None:
        return True
    return schema == table.schema or (not literal and re.fullmatch(_pattern(schema), table.schema) is not None)


def _pattern(schema: str) -> str:
    r"""A database's name in a grant: `%` and `_` stand for others unless they are escaped."""
    kinds = {"%": ".*", "_": "."}
    return "".join(re.escape(one[1]) if len(one) == 2 else kinds.get(one, re.escape(one)) for one in re.findall(r"\\.|.", schema))
