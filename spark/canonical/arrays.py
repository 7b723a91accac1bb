"""Arrays: how many elements, and each by its own form."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import Form, is_there, prefix_length, prefix_length_sql


def array_of(element: Form, *, of_rows: bool = False) -> Form:
    """An array of these elements; NULL among them is `N`. `of_rows`: they are, or may be, of a row type."""

    def sql(column: str) -> str:
        value = f"coalesce({prefix_length_sql('(' + element.sql('_cdc_e') + ')')}, 'N')"
        # Of a row type unnest() gives the fields, and not the value.
        rows = f"generate_subscripts({column}, 1) i(_cdc_o), LATERAL (SELECT ({column})[_cdc_o] AS _cdc_e) x"
        items = rows if of_rows else f"unnest({column}) WITH ORDINALITY x(_cdc_e, _cdc_o)"
        listed = f"SELECT concat(count(*), '[', string_agg({value}, ',' ORDER BY _cdc_o), ']') FROM {items}"
        return f"CASE WHEN {is_there(column)} THEN ({listed}) END"

    def lake(column: Expression) -> Expression:
        values = sf.transform(column, lambda e: sf.coalesce(prefix_length(element.lake(e)), sf.lit("N")))
        listed = sf.concat(sf.size(column).cast("string"), sf.lit("["), sf.array_join(values, ","), sf.lit("]"))
        return sf.when(column.isNotNull(), listed)

    return Form(sql, lake, in_key=array_of(element.in_key) if element.in_key else None)
