"""The kinds of positions: whose log a record's place is of. A row per kind; its file is imported when it is asked for."""

from __future__ import annotations

PLACES: dict[str, str] = {
    "postgresql": "spark.positions.postgresql:POSTGRESQL",
    "mysql": "spark.positions.mysql:MYSQL",
    "mariadb": "spark.positions.mysql:MARIADB",
    "sqlserver": "spark.positions.sqlserver:SQLSERVER",
    "oracle": "spark.positions.oracle:ORACLE",
    "mongodb": "spark.positions.mongodb:MONGODB",
    "attunity": "spark.positions.attunity:ATTUNITY",
    "topic": "spark.positions.topic:TOPIC",
}
"""By the name that a spec and a registry file use; `module:name` of its Connector."""
