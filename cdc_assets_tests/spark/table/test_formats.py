"""Each format in the lake has one number, and another one is refused by the same text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from spark.errors import TableHeldError, TableStopError
from spark.proof.ledger_contract import fold_ledger, ledger_metadata
from spark.silver.column_ledger import ColumnLedger
from spark.table.commit_metadata import Committed, Folded, bronze_metadata, fold, fold_silver, silver_metadata
from spark.table.needed_versions import Floor, floors_text, parse_floors
from spark.table.table_folder import open_folder
from spark.table.write_lease import FOLDER, TASK, hold, take

TEXT = "of format 2, this cdc reads 1: read it with the cdc that wrote it; cdc --version tells which one this is"
WRITTEN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "version 7 is a bronze commit": (bronze_metadata("op", Committed(-1, {}), {}), lambda text: fold([(7, text)])),
    "version 7 is a silver commit": (silver_metadata("op", Folded(0, {}), {}), lambda text: fold_silver([(7, text)])),
    "version 7 is a ledger commit": (ledger_metadata("op", {}), lambda text: fold_ledger([(7, text)])),
    "table property cdc.bronzeFrom is a floor": (floors_text({"t": Floor("orders", 0, {0: 5})}), parse_floors),
    "table property cdc.schema is a schema ledger": (ColumnLedger((), ()).to_text(), ColumnLedger.from_text),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_another_number_is_refused(what: str) -> None:
    text, read = WRITTEN[what]
    document = json.loads(text)
    assert document["cdc_assets"] == 1
    with pytest.raises(TableStopError, match=re.escape(f"{what} {TEXT}")):
        read(json.dumps({**document, "cdc_assets": 2}))


def test_nobody_writes_under_a_lease_of_another_format(object_lake: str) -> None:
    path = f"{object_lake}/t"
    with hold(path, TASK, seconds=0):
        pass
    folder = open_folder(path)
    [newest] = folder.names(FOLDER)
    folder.put(f"{FOLDER}/{newest}", folder.read(f"{FOLDER}/{newest}").replace(b'"cdc_assets": 1', b'"cdc_assets": 2'))
    with pytest.raises(TableHeldError, match=re.escape(f"{path}/{FOLDER}/{newest} is a lease {TEXT}")):
        take(path, TASK, seconds=0)
