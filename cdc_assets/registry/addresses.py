"""Hosts and names of databases as an address takes them: Debezium puts both into a JDBC URL as they are.

https://jdbc.postgresql.org/documentation/use/#connecting-to-the-database
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

_HOST = re.compile(r"[A-Za-z0-9._:,\[\]-]+")
_ENDS_A_NAME = re.compile(r"[/?&;=#%\\\x00-\x1f\x7f]")


def check_host(text: str) -> str:
    """A name or an address of a host, or several.

    Raises:
        ValueError: it says more than that.
    """
    if not _HOST.fullmatch(text):
        raise ValueError(f"it is the name or the address of a host and nothing else, got {text!r}")
    return text


def check_dbname(text: str) -> str:
    """The name of a database.

    Raises:
        ValueError: a character in it begins another part of a URL.
    """
    if found := _ENDS_A_NAME.search(text):
        raise ValueError(f"it is the name of a database, and {found[0]!r} begins another part of its address, got {text!r}")
    return text


Host = Annotated[str, AfterValidator(check_host)]
DbName = Annotated[str, Field(min_length=1), AfterValidator(check_dbname)]
