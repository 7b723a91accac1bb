"""Bytes and bits."""

from __future__ import annotations

from pyspark.sql import functions as sf

from spark.canonical.form import AS_TEXT, Form

FORMS = {"bytea": Form(lambda c: f"md5({c})", sf.md5), "bit": AS_TEXT}
