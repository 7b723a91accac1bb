"""Where an Oracle database is. A table is named `SCHEMA.TABLE`, in the case that the dictionary has."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import DbName, Host
from cdc_assets.registry.declared import DatabaseKind


class Oracle(DatabaseKind):
    """Host, port and user may be `{env: NAME}`. The password is a secret. Experimental: not run against a server.

    `dbname` is the root container's service. `pdb` is the pluggable database that holds the tables (none: no containers).
    `mining: online_catalog` is cheap and does not follow a change of a table's columns. The mode `redo_log_catalog` does,
    and writes the dictionary into the redo log. Set `lobs` to read CLOB, BLOB and XML. They cost much. Debezium has no
    Oracle driver: put ojdbc11.jar beside the plugin.
    """

    kind: Literal["oracle"]
    host: Host | EnvRef
    port: int | EnvRef = 1521
    dbname: DbName
    pdb: str | None = None
    user: str | EnvRef
    password: SecretRef
    mining: Literal["online_catalog", "redo_log_catalog", "hybrid"] = "hybrid"
    lobs: bool = False

    @model_validator(mode="after")
    def _can_mine_lobs(self) -> Oracle:
        if self.lobs and self.mining == "hybrid":
            raise ValueError("lobs: Debezium does not read them with mining: hybrid; choose online_catalog or redo_log_catalog")
        return self

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """The database that holds the tables."""
        return (self.pdb or self.dbname,)
