"""Events of the fold's form (spark.silver.typed_changes.decode_changes) from histories drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cdc_assets_tests.support.oracles.version_oracle import Happened
from spark.silver.row_fold import POSITION

SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("topic",)),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("c0", pa.int32()),
        *(pa.field(name, pa.string()) for name in ("c1", "c2", POSITION, "_cdc_op")),
        pa.field("_cdc_source_ts", pa.timestamp("us", "UTC")),
        pa.field("_cdc_tx_id", pa.string()),
        pa.field("absent", pa.list_(pa.int32())),
        pa.field("problem", pa.struct([(name, pa.string()) for name in ("error_class", "column", "message")])),
        pa.field("write", pa.string()),
        pa.field("lacks", pa.bool_()),
    ]
)
KEYS = 6
"""Of each history."""


def history(chosen: random.Random, first: int) -> list[Happened]:
    """What happens to a few keys, as a database does it."""
    happened, there = list[Happened](), set[int]()
    for place in range(first, first + chosen.randrange(2, 30)):
        key = first + chosen.randrange(KEYS)
        whole = Happened(place, key, "u" if key in there else "c", chosen.choice("abc"), chosen.choice(["x", "y", None]))
        act = chosen.choice("wwppppddmb")
        free = [other for other in range(first, first + KEYS) if other not in there]
        if key not in there or act == "w":
            happened.append(whole)
        elif act == "p":
            happened.append(replace(whole, part=True))
        elif act == "b":
            happened.append(replace(whole, broken=True))
        else:
            happened.append(Happened(place, key, "d"))
            there.discard(key)
            if act == "m" and free:
                key = chosen.choice(free)
                happened.append(replace(whole, key=key, op="c", part=True, moved_from=happened[-1].key))
            else:
                continue
        there.add(key)
    return happened


def delivered(chosen: random.Random, happened: Sequence[Happened]) -> list[dict[str, Any]]:
    """Their events in any order, some of them twice."""
    again = [one for one in happened if chosen.random() < 0.2]
    events = [event(one, offset) for offset, one in enumerate([*happened, *again])]
    chosen.shuffle(events)
    return events


def event(one: Happened, offset: int) -> dict[str, Any]:
    write = f"0000.{one.place:04x}.1"
    is_row = one.op != "d" and not one.broken
    return {
        "topic": "t",
        "partition": one.key % 2,
        "offset": offset,
        "c0": one.key,
        "c1": one.v if is_row else None,
        "c2": one.note if is_row and not one.part else None,
        POSITION: f"{write}.{offset:016x}",
        "_cdc_op": None if one.broken else one.op,
        "absent": [2] if one.part else None,
        "problem": {"error_class": "envelope", "column": None, "message": "broken"} if one.broken else None,
        "write": write,
        "lacks": one.op == "c" and one.part,
    }
