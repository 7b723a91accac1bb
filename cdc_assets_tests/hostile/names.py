"""Hostile names of tables and columns, and how they are quoted."""

from __future__ import annotations

SCHEMA = 'odd,sch;e:ma."x'
# Name, and key columns that are declared: whatever Debezium's lists split at, trim, or take for a part of a pattern.
SHARED: dict[str, tuple[str, ...]] = {
    "keys;odd:name,x": ("k,2",),
    "semi;colon": ("a;b", "c:d"),
    "dots.in.it": ("p.q",),
    "back\\slash": ("d\\",),
    'quo"te': ('q"', '"b'),
    "apo'strophe": ("'",),
    "place${dir:/a:b}holder": ("${env:PATH}",),
    "per%cent%s": ("100%",),
    "(?i)reg[ex]*+?|^${1}": (".*",),
    "quest?ion{fn now()}": ("?",),
    "Case": ("v",),
    "case": (),
    "plain": (),
}
"""What PostgreSQL and MariaDB both take."""
POSTGRESQL: dict[str, tuple[str, ...]] = {
    **SHARED,
    "trailing ": (" k ", "tab\t"),
    " leading": ("line\nbreak",),
    "ünï😀": ("ключ",),
}
# MariaDB itself takes no name that ends in white space, and none beyond U+FFFF.
MARIADB: dict[str, tuple[str, ...]] = {
    **SHARED,
    " leading": ("line\nbreak", "t\tab"),
    "ünïключ": ("ключ",),
    "/*comment*/ -- #": ("#k",),
    "tick`tack": ("a`b",),
}


def quoted(*parts: str) -> str:
    """As PostgreSQL and our registry quote them."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def ticked(*parts: str) -> str:
    """As MariaDB quotes them."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
