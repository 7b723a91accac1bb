"""The page docs/reference/statements.md: `python -m cdc_assets_tests.support.statements.statements_page 450 > THE PAGE`.

It plays so many statements of each corpus, chosen by chance, on a MariaDB and a MySQL of its own: some minutes.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from cdc_assets_tests.support.statements.corpus import KINDS, STATEMENTS, corpus
from cdc_assets_tests.support.statements.outcomes import Outcome, outcomes
from cdc_assets_tests.support.statements.played import own_server

_HEAD = """# DDL that Debezium cannot read, or misreads

A connector of a binlog reads DDL by its text. This page is made by
`.venv/bin/python -m cdc_assets_tests.support.statements.statements_page 450`. It plays {count}
statements of the servers' own test suites (GPL-2.0), chosen by chance of {all}, on a real server.
The pinned connector's own parser reads what the server wrote into its binlog.

* **stops**: the parser fails, and the connector with it, for every table of the source.
* **bends**: Debezium makes other values by its model than by the server's definition.
* **told**: so many of these the check `table_model` tells.

The numbers are of statements that differ in form, not of how often people write them.
"""
_TITLES = {"mariadb": "MariaDB 10.11, connector 3.5.0", "mysql": "MySQL 9.7, connector 3.6.1"}


def markdown(found: dict[str, list[Outcome]]) -> str:
    """The page."""
    parts = [_HEAD.format(count=f"{sum(map(len, found.values())):,}", all=f"{sum(len(corpus(kind)) for kind in found):,}")]
    for kind, some in found.items():
        parts += [f"## {_TITLES[kind]}\n", *_table(some), "", *_examples(some)]
    return "\n".join(parts) + "\n"


def _table(found: list[Outcome]) -> Iterable[str]:
    yield "| statements | played | stop | bend | told |"
    yield "|---|---|---|---|---|"
    for name in (*STATEMENTS, ""):
        some = [one for one in found if name in ("", one.case.kind)]
        bent = [one for one in some if one.bends]
        counts = (len(some), sum(bool(one.stops) for one in some), len(bent), sum(not one.missed for one in bent))
        if some:
            yield f"| {name or '**all**'} | " + " | ".join(f"{count:,}" for count in counts) + " |"


def _examples(found: list[Outcome]) -> Iterable[str]:
    """The shortest of each word that stops it, or of each word that it misreads."""
    for title, some in (("What stops it", [o for o in found if o.stops]), ("What bends it", [o for o in found if o.bends])):
        if some:
            yield f"{title}, the shortest of each kind of statement:\n\n```sql"
            for name in STATEMENTS:
                of_kind = sorted((o.case.statement for o in some if o.case.kind == name), key=lambda text: (len(text), text))
                for text in _unlike(of_kind)[:3]:
                    yield text[:94]
            yield "```\n"


def _unlike(statements: list[str]) -> list[str]:
    seen = Counter[str]()
    kept = []
    for text in statements:
        words = "".join(re.findall(r"[A-Za-z]{4,}", text)).lower()[:40]
        seen[words] += 1
        kept += [text] if seen[words] == 1 else []
    return kept


def main(share: str) -> None:
    """Play so many of each, both servers at a time, and print the page."""
    with ThreadPoolExecutor(len(KINDS)) as pool:
        found = dict(zip(KINDS, pool.map(lambda kind: _play(kind, int(share)), KINDS), strict=True))
    print(markdown(found), end="")


def _play(kind: str, share: int) -> list[Outcome]:
    chosen = Random(0).sample(corpus(kind), min(share, len(corpus(kind))))
    with tempfile.TemporaryDirectory(prefix="cdc-statements-") as folder, own_server(kind, Path(folder)) as server:
        return outcomes(kind, server, chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
