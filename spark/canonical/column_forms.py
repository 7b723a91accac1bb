"""The canonical form of each column, from all families."""

from __future__ import annotations

from collections.abc import Callable

from spark.canonical import arrays, binary_forms, geometric, mariadb, mysql, number_forms, temporal_forms, text_forms
from spark.canonical.form import Form, Incomparable
from spark.specs import Column
from spark.types.rule import SourceType

_BY_TYPE: dict[str, Form | Incomparable] = {
    **number_forms.FORMS,
    **text_forms.FORMS,
    **temporal_forms.FORMS,
    **binary_forms.FORMS,
    **geometric.FORMS,
}


def form(column: Column) -> Form | Incomparable:
    """How values of the column are written for a comparison; or why they cannot be."""
    return _OF_DIALECT.get(column.dialect, _postgresql_form)(column)


def _mysql_form(column: Column) -> Form | Incomparable:
    found = _postgresql_form(column)
    return mysql.form(column, found) if isinstance(found, Form) else found


def _postgresql_form(column: Column) -> Form | Incomparable:
    source = SourceType.parse(column.source_type, column.kind)
    if source is None:
        return Incomparable(f"{column.source_type} is not a type that format_type() writes")
    if source.name == "bit" and (source.args or (1,))[0] == 1:
        element: Form | Incomparable = number_forms.BIT
    elif column.accepted and source.name.startswith("interval"):
        element = temporal_forms.FINITE_INTERVAL
    else:
        element = _BY_TYPE.get(source.name) or _BY_TYPE.get(source.bare) or text_forms.OTHER
    if source.array and source.bare == "time with time zone":
        return Incomparable("Debezium cuts the microseconds of its elements")
    if source.array and isinstance(element, Form):
        return arrays.array_of(element, of_rows=source.kind in ("composite", "domain"))
    return element


_OF_DIALECT: dict[str, Callable[[Column], Form | Incomparable]] = {"mariadb": mariadb.form, "mysql": _mysql_form}
