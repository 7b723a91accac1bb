"""ALTER TABLE of several clauses in one statement, with types by all their names: drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from cdc_assets_tests.hostile.binlog_tables import Column, Table
from cdc_assets_tests.hostile.names import ticked


def draw_clauses(random: Random, table: Table, words: Mapping[str, str]) -> str:
    """The statement; `table` has the names of then, and the types as the statement writes them: some of `words`."""
    others = [column for column in table.columns if not column.required]
    random.shuffle(others)
    clauses, places = list[str](), [column.name for column in others[2:]]
    renamed, gone = others[0], others[1]
    if random.random() < 0.7:
        clauses.append(_rename(random, table, renamed))
        if table.facts.misread:
            # The parser looks for it among the columns of before.
            places.append(renamed.name)
    else:
        places.append(renamed.name)
    if random.random() < 0.5:
        clauses.append(f"DROP COLUMN {gone.sql}")
        table.columns.remove(gone)
    else:
        clauses.append(f"MODIFY {gone.sql} {gone.type} NULL{_place(random, [*places, 'id'])}")
    for kind in random.sample(sorted(words), random.choice((1, 2, 3))):
        added = Column(_name(table), kind, words[kind])
        clauses.append(f"ADD COLUMN {added.sql} {kind}{_place(random, [*places, 'id'])}")
        table.columns.append(added)
        places.append(added.name)
    charset = ", DEFAULT CHARACTER SET latin1" if table.facts.misread and random.random() < 0.3 else ""
    if random.random() < 0.5:
        # What is added stands before what it comes behind. The server refuses that of a column that the statement adds itself.
        clauses = [*(c for c in clauses if "ADD" in c), *(c for c in clauses if "ADD" not in c)]
    return f"ALTER TABLE {table.sql} {', '.join(clauses)}{charset}"


def _rename(random: Random, table: Table, column: Column) -> str:
    before, column.name = column.sql, _name(table)
    if random.random() < 0.5:
        return f"CHANGE COLUMN {before} {column.sql} {column.type} NULL"
    return f"RENAME COLUMN {before} TO {column.sql}"


def _name(table: Table) -> str:
    """One that no column has had: values of another type would stand beside it."""
    table.gone.append(f"c{len(table.gone)}")
    return table.gone[-1]


def _place(random: Random, names: list[str]) -> str:
    return random.choice((" FIRST", "", *(f" AFTER {ticked(name)}" for name in random.sample(names, min(2, len(names))))))
