"""Hostile names of tables and columns, and how they are quoted."""

from __future__ import annotations

from random import Random

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
RESERVED = ("select", "order", "user", "table", "offset", "null", "current_date", "after", "before", "op", "source", "key")
"""Words of SQL, and of Debezium's envelope."""
_COLUMNS = (
    *("a b", "c;d", "e,f", 'g"h', "i'j", "k\\l", "m.n", "o:p", "(q)", "{r}", "s=t", "u%v", "%s", "w${x}", "[y]", "z`", "?"),
    *("ä", "Ünï", "ключ", "日本", " lead", "tab\tx", "line\nb", "--", "/*x*/", "#1", "_cdc", "_c0", "cdc_op", "1st", "0"),
    *("True", "NaN", "id", "value", "element", "key_value", "list", "x" * 50, "é" * 25),
)


def quoted(*parts: str) -> str:
    """As PostgreSQL and our registry quote them."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def ticked(*parts: str) -> str:
    """As MariaDB quotes them."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def table_name(random: Random, number: int, *, kind: str) -> str:
    """One that no other number's table has, of at most 63 bytes, whatever a topic's or a folder's name makes of it."""
    odd = random.choice([*(POSTGRESQL if kind == "postgresql" else MARIADB), *RESERVED])
    name = random.choice((f"{odd}{number}", f"{number}{odd}", f"{odd}{number}x"))
    if random.random() < 0.2:
        name = name + "_" * (63 - len(name.encode()))
    # Neither begins nor ends with a double quote, which Debezium cannot name; MariaDB takes no blank at the end.
    return name.strip('"') if kind == "postgresql" else name.strip('" ')


def column_names(random: Random, count: int, *, kind: str, taken: tuple[str, ...] = ()) -> list[str]:
    """Different ones, also where case does not count."""
    lower = {name.lower() for name in taken}
    pool = [name for name in (*_COLUMNS, *RESERVED) if name.lower() not in lower]
    if kind == "postgresql":
        pool += [name for name in ("trail ", "😀") if name not in taken]
    return random.sample(pool, count)
