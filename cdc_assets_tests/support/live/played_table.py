"""A table whose key is of some kind, in a database and in silver, with damage of each kind planted at random in silver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from spark.proof.row_text import RowText
from spark.silver.typed_changes import lake_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LETTERS = "aAbBzZ _-%'\\;:éÉßЖ中\U0001f600"
Key = tuple[Any, ...]
Database = PostgresDatabase | MariaDbDatabase


def word(random: Random) -> str:
    return "".join(random.choices(LETTERS, k=random.randint(0, 9))).rstrip(" ")


def day(random: Random) -> dt.date:
    return dt.date(1, 1, 1) + dt.timedelta(days=random.choice([random.randint(0, 3_600_000), 700_000 + random.randint(0, 4)]))


def amount(random: Random) -> Decimal:
    return Decimal(random.choice([random.randint(-(10**7), 10**7), random.randint(-2, 2)])) / 100


def moment(random: Random) -> dt.datetime:
    return dt.datetime(2026, 1, 1) + dt.timedelta(milliseconds=random.randint(-(10**12), 10**12))


def uuid(random: Random) -> str:
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{random.choice('14')}{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


@dataclass(frozen=True)
class Kind:
    """A key: its columns as declared and as the catalogue has them (type, kind), and how values are drawn.

    `odd`: a column, and a text that the source cannot hold in it. Without `often` it is played when it is asked for.
    """

    columns: tuple[tuple[str, str, str, Callable[[Random], Any]], ...]
    often: bool = False
    odd: tuple[int, str] | None = None


def _pg(*columns: tuple[str, Callable[[Random], Any]], **more: Any) -> Kind:
    kinds = {"citext": "base", "tint": "enum"}
    return Kind(tuple((t, t.partition(" COLLATE")[0], kinds.get(t, ""), of) for t, of in columns), **more)


def _maria(*columns: tuple[str, str, Callable[[Random], Any]], **more: Any) -> Kind:
    return Kind(tuple((t, t.partition(" CHARACTER")[0], charset, of) for t, charset, of in columns), **more)


def tint(random: Random) -> str:
    return random.choice(("light", "dark"))


CI = "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
KINDS = {
    "postgresql": {
        "texts without case": _pg(("citext", word)),
        "mixed": _pg(
            ("date", day),
            ("tint", tint),
            ("citext", lambda r: r.choice("aAbB")),
            ("numeric(9,2)", amount),
            often=True,
            odd=(1, "no"),
        ),
        "moments": _pg(
            ("timestamp with time zone", lambda r: moment(r).replace(tzinfo=dt.UTC)),
            ("boolean", lambda r: r.random() < 0.5),
            ("timestamp(3) without time zone", moment),
        ),
        "padded": _pg(("character(6)", lambda r: word(r)[:6].ljust(6)), ("numeric", amount), ("uuid", uuid)),
    },
    "en_US": {
        "texts": _pg(('character varying(40) COLLATE "en"', word)),
        "two texts": _pg(('text COLLATE "en"', lambda r: r.choice("aAb-")), ("date", day), ('text COLLATE "en"', word)),
    },
    "mariadb": {
        "texts without case": _maria((CI, "utf8mb4", word)),
        "mixed": _maria(
            ("date", "", day),
            ("varchar(9) CHARACTER SET latin2 COLLATE latin2_general_ci", "latin2", lambda r: r.choice(("a", "A", "b", "ž", ""))),
            ("decimal(9,2)", "", amount),
            often=True,
            odd=(1, "中"),
        ),
        "uuids": _maria(("uuid", "", uuid)),
        "moments": _maria(
            (CI, "utf8mb4", lambda r: r.choice("aAbB")),
            ("datetime(3)", "", moment),
            ("bigint(20) unsigned", "", lambda r: r.getrandbits(64)),
        ),
    },
}


@dataclass
class Place:
    """A database, and how to speak to it."""

    dialect: str
    database: Database
    schema: str
    execute: Callable[[str, Sequence[Key]], None]
    query: Callable[[str], Sequence[Sequence[Any]]]


@dataclass
class Table:
    """A source's table and silver; `damage`: key's text to its kind."""

    place: Place
    text: RowText
    random: Random
    held: set[Key] = field(default_factory=set)
    fresh: list[Key] = field(default_factory=list)
    damage: dict[str, str] = field(default_factory=dict)
    damaged: set[Key] = field(default_factory=set)
    phantoms: list[Key] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.place.schema}.played"

    def rows(self) -> dict[Key, tuple[str, int]]:
        """The source's: key to its text and a value."""
        names = ", ".join(f"k{i}" for i in range(len(self.text.keys)))
        found = self.place.query(f"SELECT {self.text.key_sql()}, n, {names} FROM {self.name}")
        return {tuple(map(_plain, row[2:])): (row[0], row[1]) for row in found}

    def begin(self, drawn: set[Key], odd: tuple[int, str] | None) -> None:
        """The database decides which of these keys are different, and how it holds them; a tenth comes later, some never."""
        marks = ", ".join(["%s"] * len(self.text.keys))
        ignored = ("INSERT", " ON CONFLICT DO NOTHING") if self.place.dialect == "postgresql" else ("INSERT IGNORE", "")
        self.place.execute(f"{ignored[0]} INTO {self.name} VALUES ({marks}, 1){ignored[1]}", sorted(drawn, key=str))
        known = self.rows()
        keys = sorted(known, key=lambda key: known[key][0])
        self.random.shuffle(keys)
        self.phantoms, self.fresh = keys[:5], keys[5 : len(keys) // 5]
        self.damage = {known[key][0]: "phantom" for key in self.phantoms}
        self.delete([*self.phantoms, *self.fresh])
        self.held = {*keys} - {*self.phantoms, *self.fresh}
        damaged = self.random.sample(sorted(self.held, key=str), 16)
        self.damage |= {
            known[key][0]: kind for key, kind in zip(damaged, ("missing", "differs", "twice", "kept") * 4, strict=True)
        }
        self.damaged = {*damaged}
        texts = next(([i] for i, value in enumerate(keys[0]) if isinstance(value, str)), [])
        for key in damaged:
            if self.damage[known[key][0]] != "kept":
                continue
            # A key in another case, which is another one, although the source's collation may take it for the same.
            for at, text in [(at, "".join(c.swapcase() if c.isascii() else c for c in key[at])) for at in texts] + [
                *filter(None, [odd])
            ]:
                self._phantom(key, at, text, known)
        self.damage = {key: kind for key, kind in self.damage.items() if kind != "kept"}

    def _phantom(self, like: Key, at: int, value: str, known: dict[Key, tuple[str, int]]) -> None:
        """A row of silver whose key has another text in a column."""
        old, new = (f"{len(text.encode())}:{text};" for text in (like[at], value))
        text = known[like][0].replace(old, new, 1)
        if text not in {key for key, _ in known.values()} | self.damage.keys():
            self.phantoms.append((*like[:at], value, *like[at + 1 :]))
            self.damage[text] = "phantom"

    def delete(self, keys: Sequence[Key]) -> None:
        same = " AND ".join(f"k{i} = %s" for i in range(len(self.text.keys)))
        self.place.execute(f"DELETE FROM {self.name} WHERE {same}", keys)

    def write(self) -> None:
        """Some rows come, go and change, none of those that are damaged."""
        whole = sorted(self.held - self.damaged, key=str)
        gone, changed = self.random.sample(whole, 3), self.random.sample(whole, 9)
        come, self.fresh = self.fresh[:4], self.fresh[4:]
        self.delete(gone)
        same = " AND ".join(f"k{i} = %s" for i in range(len(self.text.keys)))
        self.place.execute(f"UPDATE {self.name} SET n = n + 1 WHERE {same}", changed)
        self.place.execute(f"INSERT INTO {self.name} VALUES ({', '.join(['%s'] * len(self.text.keys))}, 1)", come)
        self.held = (self.held - {*gone}) | {*come}

    def fold(self, session: SparkSession) -> int:
        """Silver as the source is, but for the damage; its version."""
        known = self.rows()
        assert known.keys() == self.held
        rows: list[tuple[Any, ...]] = [(*key, 7) for key in self.phantoms]
        for key, (text, n) in known.items():
            kind = self.damage.get(text)
            rows += [(*key, n + (kind == "differs"))] * {"missing": 0, "twice": 2}.get(kind or "", 1)
        types = [kind.name for kind in lake_types(self.text.spec)]
        rows = [tuple(Decimal(v) if t.startswith("decimal") else v for v, t in zip(row, types, strict=True)) for row in rows]
        schema = ", ".join(f"{c.name} {t}" for c, t in zip(self.text.spec.columns, types, strict=True))
        frame = session.createDataFrame(rows, schema).selectExpr(
            "*", "'' AS _cdc_position", "'c' AS _cdc_op", "timestamp '2026-01-01' AS _cdc_source_ts", "'1' AS _cdc_tx_id"
        )
        frame.write.format("delta").mode("overwrite").save(self.text.spec.path)
        return DeltaTable(self.text.spec.path).version()


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, str, Decimal, dt.date)) else str(value)
