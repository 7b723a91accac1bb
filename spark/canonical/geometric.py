"""Geometric types."""

from __future__ import annotations

from spark.canonical.form import Incomparable

_WKB = Incomparable("silver holds coordinates or well-known binary, PostgreSQL writes its own text")
FORMS = dict.fromkeys(("point", "line", "circle", "lseg", "box", "polygon", "path"), _WKB)
