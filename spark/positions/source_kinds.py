"""Kinds of sources by the name that a spec and a registry file use."""

from __future__ import annotations

from pyspark.sql import Column

from spark.errors import SpecError
from spark.positions.attunity import ATTUNITY
from spark.positions.mongodb import MONGODB
from spark.positions.mysql import MARIADB, MYSQL
from spark.positions.oracle import ORACLE
from spark.positions.postgresql import POSTGRESQL
from spark.positions.source_connector import Connector
from spark.positions.sqlserver import SQLSERVER
from spark.positions.topic import TOPIC

CONNECTORS = {c.name: c for c in (POSTGRESQL, MYSQL, MARIADB, SQLSERVER, ORACLE, MONGODB, ATTUNITY, TOPIC)}


def connector(name: str) -> Connector:
    """The kind of source of that name.

    Raises:
        SpecError: naming the known ones.
    """
    if name not in CONNECTORS:
        raise SpecError(f"connector {name!r} is not known; known are {', '.join(sorted(CONNECTORS))}")
    return CONNECTORS[name]


def write_of(position: Column, name: str) -> Column:
    """The write of a source of this kind that a position is of."""
    return connector(name).write(position)
