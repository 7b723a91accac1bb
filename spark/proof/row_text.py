"""A row as one text and one number, the same in the source's SQL (spark.values.hashing_dialects) and in Spark;
rows are compared by the number.

text    each column's canonical form and `;`, in the order of the columns
hash    the first 60 bits of md5(text), of MySQL's rows of sha256: two different rows have the same one with probability 2^-60
bucket  of a key of whole numbers the remainder of the sum of their absolute values; of a uuid one of its bytes; of other keys
        28 bits of that hash of its text; without key the hash. A key's row is in the same bucket on both sides, whatever its
        values
slice   what is read of tables too large to be read whole at a time: a range of keys, or a share of the buckets: one of N
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.errors import JobRefusedError
from spark.proof.key_order import Bound, KeyOrder, KeyRange, OwnOrder, TwoRanges, key_order, own_order
from spark.silver.typed_changes import condition_values, slot
from spark.specs import SilverSpec
from spark.values.canonical_forms import Form, Incomparable
from spark.values.column_forms import form
from spark.values.hashing_dialects import MariaDbDialect, MySqlHashingDialect, PostgreSqlDialect
from spark.values.sql_dialects import BUCKETS, HashingDialect, measure

LOW_BITS = 30
KeyShare = tuple[int, int]
Slice = KeyShare | KeyRange
WHOLE: KeyShare = (0, 1)
_DIALECTS: dict[str, HashingDialect] = {
    "postgresql": PostgreSqlDialect(),
    "mariadb": MariaDbDialect(),
    "mysql": MySqlHashingDialect(),
}


def slice_text(part: Slice | TwoRanges) -> str:
    """A slice for people: `4/127`, or its keys."""
    return f"{part[0] + 1}/{part[1]}" if isinstance(part, tuple) else part.text


@dataclass(frozen=True)
class RowText:
    """How rows of a table are written; `without` are columns that the source's reader cannot write, and why."""

    spec: SilverSpec
    without: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def forms(self) -> dict[str, Form]:
        """By column name; columns that cannot be compared are left out."""
        by_column = {c.name: form(c) for c in self.spec.columns if c.name not in self.without}
        keys = {*self.spec.keys}
        return {name: (name in keys and f.in_key) or f for name, f in by_column.items() if isinstance(f, Form)}

    @cached_property
    def not_compared(self) -> dict[str, str]:
        """The columns that cannot be compared, and why."""
        by_column = {c.name: (c, form(c)) for c in self.spec.columns}
        reasons = {name: f"{c.source_type}: {f.why}" for name, (c, f) in by_column.items() if isinstance(f, Incomparable)}
        return {**self.without, **reasons}

    def display(self, texts: Sequence[str | None]) -> dict[str, str | None]:
        """A row for people, from its forms' texts in their order."""
        return {name: f.display(text) for (name, f), text in zip(self.forms.items(), texts, strict=True)}

    @property
    def keys(self) -> tuple[str, ...]:
        """The key's columns; none where one of them cannot be compared."""
        return self.spec.keys if all(k in self.forms for k in self.spec.keys) else ()

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The key's columns where all of them are whole numbers; else none."""
        types = {c.name: re.sub(r"\(\d+\)| zerofill", "", c.source_type) for c in self.spec.columns}
        return self.keys if all(types[key] in self.dialect.whole for key in self.keys) else ()

    @cached_property
    def uuid(self) -> str | None:
        """The bucket of a key that is one uuid, in SQL."""
        types = {c.name: c.source_type for c in self.spec.columns}
        if len(self.keys) != 1 or types[self.keys[0]] != "uuid":
            return None
        return self.dialect.bucket_of_uuid(self.dialect.quote(self.keys[0]))

    # -- the database ----------------------------------------------------------------------------------------------

    @cached_property
    def dialect(self) -> HashingDialect:
        """The SQL dialect of the source's database."""
        return _DIALECTS[self.spec.columns[0].dialect]

    def text_sql(self, names: Sequence[str]) -> str:
        """The text of these columns."""
        columns = [(self.forms[name], self.dialect.quote(name)) for name in names]
        return self.dialect.text([(column, form.sql(column), form.arguments(column)) for form, column in columns])

    def row_sql(self) -> str:
        """The source's SQL for the row's text, of all compared columns."""
        return self.text_sql([*self.forms])

    def key_sql(self) -> str:
        """The key's text; the row's own where there is no key."""
        return self.text_sql(self.keys) if self.keys else self.row_sql()

    def one_of_sql(self, keys: Sequence[str]) -> str:
        """That the row's key is one of these texts: a condition for any session, Debezium's as well."""
        return f"{self.key_sql()} IN ({', '.join(map(self.dialect.text_constant, keys))})"

    def hash_sql(self) -> str:
        """The source's SQL for the row's hash, a bigint from its text."""
        return self.dialect.hash(self.row_sql())

    def bucket_sql(self) -> str:
        """The source's SQL for the row's bucket, 0 to BUCKETS - 1."""
        if self.numbers:
            return self._remainder(BUCKETS)
        if self.uuid:
            return self.uuid
        if self.keys:
            return self.dialect.bucket_of_text(self.key_sql())
        return f"mod({self.hash_sql()}, {BUCKETS})"

    def slice_sql(self, part: Slice, own: Collection[str] = ()) -> str:
        """The condition of a slice; `true` where it is the whole. `own` as in KeyOrder.sql.

        Of a share (i, n) that the bucket leaves i when divided by n; of numbers told without the bucket, where it can be.
        """
        if isinstance(part, KeyRange):
            return self._in_order(part).sql(part, own)
        number, parts = part
        if parts == 1:
            return "true"
        if self.numbers and BUCKETS % parts == 0:
            return f"{self._remainder(parts)} = {number}"
        return f"mod({self.bucket_sql()}, {parts}) = {number}"

    @cached_property
    def order(self) -> KeyOrder | None:
        """The order of its keys, where both sides have the same."""
        return key_order(self.spec.columns, self.keys, self.dialect)

    @cached_property
    def own(self) -> OwnOrder | None:
        """The source's own order of its keys, where they can be asked for by their texts."""
        return own_order(self.spec.columns, self.keys, self.dialect)

    @property
    def in_own_order(self) -> OwnOrder:
        """The same, where slices were chosen by it."""
        if self.own is None:
            raise JobRefusedError(f"the key ({', '.join(self.keys)}) cannot be asked for by its text any more: run it again")
        return self.own

    def bind_values(self, texts: Sequence[str | None]) -> Bound:
        """A key's values, of the texts that the source writes of them."""
        return tuple(str(value) for value in self.key_values(texts))

    def key_values_sql(self) -> str:
        """The canonical texts of the key's columns, one by one."""
        return ", ".join(self.forms[key].sql(self.dialect.quote(key)) for key in self.keys)

    def key_values(self, texts: Sequence[str | None]) -> tuple[str | None, ...]:
        """Those without their lengths."""
        return tuple(self.forms[key].display(text) for key, text in zip(self.keys, texts, strict=True))

    def _in_order(self, part: KeyRange) -> KeyOrder:
        if self.order is None:
            raise JobRefusedError(f"the key ({', '.join(self.keys)}) has no order that is known on both sides: {part.text}")
        return self.order

    def _remainder(self, divisor: int) -> str:
        """The source's SQL, without casts: what is added is small and never negative, so that no sum overflows."""
        remainders = [f"abs(mod({self.dialect.quote(key)}, {divisor}))" for key in self.numbers]
        return remainders[0] if len(remainders) == 1 else f"mod({' + '.join(remainders)}, {divisor})"

    @cached_property
    def kept_texts(self) -> list[tuple[str, frozenset[str | None], bool]]:
        """The table's `where`: a column, the texts of its values, and whether those are the ones that are left out.

        Raises:
            JobRefusedError: the source's reader cannot write one of the columns.
        """
        columns, texts_kept = {c.name: c for c in self.spec.columns}, []
        for row_condition in self.spec.where:
            column_form = self.forms.get(row_condition.column)
            if column_form is None:
                raise JobRefusedError(
                    f"where: column {row_condition.column!r} cannot be compared, so neither can the rows be chosen"
                )
            texts = {
                measure(v) if column_form.with_length else v
                for v in condition_values(row_condition, columns[row_condition.column])
            }
            texts_kept.append(
                (
                    row_condition.column,
                    frozenset({*texts, *([None] if None in row_condition.values else [])}),
                    row_condition.excluded,
                )
            )
        return texts_kept

    def row_filter_sql(self, *conditions: str) -> str:
        """The condition of the rows that the table has, and `conditions`; `true` where that is all of them."""
        parts = [*conditions, *(self._condition_sql(*kept) for kept in self.kept_texts)]
        return " AND ".join(f"({part})" for part in parts) or "true"

    def _condition_sql(self, name: str, texts: frozenset[str | None], excluded: bool) -> str:
        text, listed = self.forms[name].sql(self.dialect.quote(name)), sorted(value for value in texts if value is not None)
        among = f"coalesce(({text}) IN ({', '.join(map(self.dialect.text_constant, listed))}), false)" if listed else "false"
        if None in texts:
            among += f" OR {self.dialect.quote(name)} IS NULL"
        return f"NOT ({among})" if excluded else among

    # -- Spark ---------------------------------------------------------------------------------------------------

    def text(self, names: Sequence[str]) -> Expression:
        """Of rows whose columns are c0, c1, ... in the order of the spec."""
        order = {c.name: i for i, c in enumerate(self.spec.columns)}
        pieces: list[Expression] = []
        for name in names:
            pieces += [sf.coalesce(self.forms[name].lake(sf.col(slot(order[name]))), sf.lit("")), sf.lit(";")]
        return sf.concat(*pieces)

    def row(self) -> Expression:
        """The row's text in Spark, of all compared columns."""
        return self.text([*self.forms])

    def key(self) -> Expression:
        """The key's text; the row's own where there is no key."""
        return self.text(self.keys) if self.keys else self.row()

    def key_columns(self) -> list[Expression]:
        """The canonical texts of the key's columns, one by one: k0, k1, ..."""
        order = {c.name: i for i, c in enumerate(self.spec.columns)}
        return [self.forms[key].lake(sf.col(slot(order[key]))).alias(f"k{i}") for i, key in enumerate(self.keys)]

    def hash(self) -> Expression:
        """The row's hash in Spark, a bigint: 60 bits of the digest of its text."""
        return sf.conv(sf.substring(self._digest(self.row()), 1, 15), 16, 10).cast("bigint")

    def _digest(self, text: Expression) -> Expression:
        return sf.sha2(text, 256) if self.dialect.digest == "sha256" else sf.md5(text)

    def bucket(self) -> Expression:
        """The row's bucket in Spark, 0 to BUCKETS - 1."""
        order = {c.name: i for i, c in enumerate(self.spec.columns)}
        if self.numbers:
            columns = [sf.col(slot(order[key])).cast("bigint") for key in self.numbers]
            number = sum((sf.abs(column % BUCKETS) for column in columns[1:]), sf.abs(columns[0] % BUCKETS))
        elif self.uuid:
            number = sf.conv(sf.substring(sf.col(slot(order[self.keys[0]])), 12, 2), 16, 10).cast("bigint")
        elif self.keys:
            number = sf.conv(sf.substring(self._digest(self.key()), 1, 7), 16, 10).cast("bigint")
        else:
            number = self.hash()
        return sf.pmod(number, sf.lit(BUCKETS)).cast("int")

    def within(self, part: Slice) -> Expression:
        """Whether the row is in a slice."""
        if isinstance(part, KeyRange):
            return self._in_order(part).lake(part)
        number, parts = part
        return sf.lit(True) if parts == 1 else self.bucket() % parts == number
