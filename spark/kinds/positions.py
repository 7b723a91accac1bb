"""The kinds of positions: whose log a record's place is of. A row per kind; its file is imported when it is asked for."""

from __future__ import annotations

PLACES: dict[str, str] = {
    "postgresql": "positions.postgresql:POSTGRESQL",
    "mysql": "positions.mysql:MYSQL",
    "mariadb": "positions.mysql:MARIADB",
    "sqlserver": "positions.sqlserver:SQLSERVER",
    "oracle": "positions.oracle:ORACLE",
    "mongodb": "positions.mongodb:MONGODB",
    "attunity": "positions.attunity:ATTUNITY",
    "topic": "positions.topic:TOPIC",
}
"""By the name that a spec and a registry file use; `module:name` of its Connector, below the package `spark`."""
