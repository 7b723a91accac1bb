"""A registry and a deployment to render."""

from __future__ import annotations

from typing import Any

from cdc_assets.deploy.manifest import Deployment
from cdc_assets.registry.source_declaration import BaseSource, Source, TopicSource, UnaskedSource

CANARY = "canary-9a41"


def deployment(**more: Any) -> Deployment:
    document = {
        "core": {"kafka": "core", "connect": "core-connect", "bootstrap": "core-kafka-bootstrap.kafka.svc:9093"},
        "lake": {"kafka": "lake", "connect": "lake-connect", "bootstrap": "lake-kafka-bootstrap.kafka.svc:9093"},
        "environment": {"SHOP_DB_HOST": "db.shop.svc"},
        "argocd": {"repository": "https://git.example.com/platform.git"},
        **more,
    }
    return Deployment.model_validate(document)


def shop(tables: tuple[str, ...] = ("public.orders", 'odd."we.ird,Name(x)"'), **more: Any) -> Source:
    database = {
        "kind": "postgresql",
        "host": {"env": "SHOP_DB_HOST"},
        "dbname": "shop",
        "user": "cdc",
        "password": {"secret": "shop_db_password"},
    }
    return Source.model_validate({"source": "shop", "database": database, "tables": [{"name": t} for t in tables], **more})


def every_kind() -> list[BaseSource]:
    """`sources()`, and one of each other kind of database, with a marker and a signal table where there are some."""
    servers: dict[str, dict[str, Any]] = {
        "mysql": {"host": "db"},
        "sqlserver": {"host": "db", "dbname": "crm"},
        "oracle": {"host": "db", "dbname": "ORCL"},
        "mongodb": {"hosts": "db:27017"},
    }
    who = {"user": "cdc", "password": {"secret": "shop_db_password"}}
    made: list[BaseSource] = []
    for kind, server in servers.items():
        key = "_id" if kind == "mongodb" else "id"
        tables = [{"name": "dbo.orders", "keys": [key], "columns": {key: "text not null"}}]
        asked = {"marker": "dbo.marker", "signals": "dbo.signals"}
        document = {"source": f"in{kind}", "database": {"kind": kind, **server, **who}, "tables": tables}
        made.append(UnaskedSource.model_validate({**document, "reconciliation": asked}))
    maria = {"kind": "mariadb", "host": "db", **who}
    made.append(Source.model_validate({"source": "maria", "database": maria, "tables": [{"name": "shop.orders"}]}))
    return [*sources(), *made]


def sources() -> list[BaseSource]:
    events = {"name": "clicks", "topic": "web.clicks-1", "envelope": "json", "columns": {"id": "bigint"}}
    return [
        shop(),
        TopicSource.model_validate({"source": "web", "kind": "topics", "tables": [events]}),
    ]
