"""The registry's file of one table whose events Debezium sends to a topic: what `support.lake.lake.Lake` holds as `t`."""

from __future__ import annotations

SOURCE = """\
source: source
kind: topics
cluster: lake
tables:
  - name: t
    topic: core.source.public.t
    envelope: debezium-json
    connector: postgresql
    keys: [id]
    columns: {id: integer not null, v: text}
"""
