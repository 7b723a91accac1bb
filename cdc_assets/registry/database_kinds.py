"""What may stand below `database:`: the models that the table of kinds names."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from cdc_assets.kinds import KINDS


def models_of(*, asked: bool) -> Any:
    """Of all kinds whose server alone tells columns, or of those that may declare them; told apart by `kind`."""
    rows = [row for row in KINDS.values() if row.model is not None and row.tells_place is asked]
    models = [row.model.load() for row in rows if row.model]
    return Annotated[reduce(or_, models), Field(discriminator="kind")]


if TYPE_CHECKING:
    from cdc_assets.registry.mariadb import MariaDb
    from cdc_assets.registry.mongodb import MongoDb
    from cdc_assets.registry.mysql import MySql
    from cdc_assets.registry.oracle import Oracle
    from cdc_assets.registry.postgresql import Database
    from cdc_assets.registry.sqlserver import SqlServer

    AskedDatabase = Database | MariaDb
    DeclaredDatabase = MySql | SqlServer | Oracle | MongoDb
else:
    AskedDatabase, DeclaredDatabase = models_of(asked=True), models_of(asked=False)
