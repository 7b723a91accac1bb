"""Oracle's positions: the SCN of the commit, then of the change, then its place in the redo log.

    0000.00000000000002125871.1.00000000000002125850.0000003400008aaf0010.00000001.<offset>
         commit_scn           | scn                  rs_id                 ssn

SCNs come as decimal text of any number of digits and are compared as numbers. Order of change alone would not do: a
transaction that was open while a snapshot was taken changed rows below the snapshot's SCN and commits above it. A
snapshot's rows carry only the SCN they were read at (flashback query), which holds all commits up to it.
`rs_id` (` 0x000034.00008aaf.0010 `) and `ssn` tell apart the changes of one transaction at one SCN, where LogMiner
gives them; elsewhere the topic's order does.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import decimal, hexadecimal, join_parts, kind, segments
from spark.positions.source_connector import Connector, Field, Place

SCN_WIDTH, REDO_WIDTHS, SERIAL_WIDTH = 20, (8, 8, 4), 8


def of_source(field: Field, op: Column) -> Place:
    """From commit_scn, scn, rs_id and ssn."""
    commit = decimal(sf.coalesce(field("commit_scn"), field("scn")), SCN_WIDTH)
    change = decimal(sf.coalesce(field("scn"), field("commit_scn")), SCN_WIDTH)
    redo = sf.coalesce(segments(field("rs_id"), *REDO_WIDTHS), sf.lit("0" * sum(REDO_WIDTHS)))
    serial = hexadecimal(sf.coalesce(field("ssn"), sf.lit(0)), SERIAL_WIDTH)
    return Place(join_parts(commit, kind(op), change, redo, serial))


ORACLE = Connector(
    name="oracle",
    source={"commit_scn": "string", "scn": "string", "rs_id": "string", "ssn": "bigint", "txId": "string"},
    needs="source.commit_scn, source.scn",
    place=of_source,
    tx_id=lambda field: field("txId"),
)
