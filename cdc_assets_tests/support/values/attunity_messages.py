"""Messages of Qlik Replicate, as its documentation shows them."""

from __future__ import annotations

from typing import Any

from spark.specs import Column

CITY = (
    Column("ID", "integer", False),
    Column("Name", "character varying(35)", False),
    Column("CountryCode", "character(3)", False),
    Column("District", "text"),
    Column("Population", "integer"),
)

NAMES = [c.name for c in CITY]

JOMBANG = dict(zip(NAMES, (4097, "Jombang", "IDN", "East Java", 92600), strict=True))

TAIWAN = dict(zip(NAMES, (1017, "Jombang", "IDN", "East Java", 92600), strict=True))

INSERTED = {
    "operation": "INSERT",
    "changeSequence": "20200520193227000000000000000000005",
    "timestamp": "2020-05-20T19:32:27.000",
    "streamPosition": "mysql-bin-changelog.004646:350:0:416:19954418057435:mysql-bin-changelog.004646:292",
    "transactionId": "000000000000000000001226000000DB",
    "changeMask": "1F",
    "columnMask": "1F",
    "transactionEventCounter": 1,
    "transactionLastEvent": True,
}

DELETED = {
    **INSERTED,
    "operation": "DELETE",
    "changeSequence": "20200520194057000000000000000000029",
    "timestamp": "2020-05-20T19:40:57.000",
    "transactionId": "000000000000000000001228000000DB",
    "changeMask": "01",
}


def message(headers: dict[str, Any], data: Any, before: Any = None, kind: str = "DT") -> dict[str, Any]:
    head = {"magic": "atMSG", "type": kind, "headers": None, "messageSchemaId": None, "messageSchema": None}
    return {**head, "message": {"data": data, "beforeData": before, "headers": headers}}


def loaded(row: dict[str, Any]) -> dict[str, Any]:
    return message({"operation": "REFRESH", "changeSequence": "", "timestamp": "", "columnMask": "1F"}, row)
