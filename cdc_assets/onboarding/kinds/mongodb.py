"""MongoDB: nothing is enabled per collection but pre-images, if they are declared; signals are documents of a collection.

A change stream has a transaction's changes at its commit. The connector writes watermarks into the signal collection, so its role
needs readWrite there: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html#debezium-mongodb-incremental-snapshots
"""

from __future__ import annotations

import json

from cdc_assets.onboarding.kinds.signalled import SignalledKind
from cdc_assets.preflight import by_driver
from cdc_assets.preflight.mongodb_inspection import ask
from cdc_assets.registry.identifiers import TableId


class MongoDbKind(SignalledKind):
    """Onboarding of collections in MongoDB (`work.OnboardingKind`)."""

    def ask(self) -> by_driver.Ask:
        """The replica set, its oplog, and the collections' images."""
        return ask

    def signal_statements(self, table: TableId, user: str) -> str:
        """Made, and the role may write to it."""
        schema, name, role = (json.dumps(part, ensure_ascii=False) for part in (*table, user))
        return (
            f"db.getSiblingDB({schema}).createCollection({name}); "
            f'db.getSiblingDB("admin").grantRolesToUser({role}, [{{role: "readWrite", db: {schema}}}])'
        )
