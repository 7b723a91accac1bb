"""What a step asks of Spark: calls over Connect by their kind, and what the server's threads and garbage collectors took."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench.server_threads import thread_times, work_since
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Profile:
    """Calls over Connect so far, by kind; `steps` holds what each step that has ended took of them."""

    calls: Counter[str] = field(default_factory=Counter)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, pid: int) -> Iterator[None]:
        """What is done within, on the server of this pid."""
        calls, times, threads = Counter(self.calls), collector_times(pid), thread_times(pid)
        yield
        now, worked = collector_times(pid), work_since(threads, thread_times(pid))
        taken = {key: round(now[key] - times.get(key, 0.0), 3) for key in sorted(now)}
        self.steps[name] = {"calls": dict(sorted((self.calls - calls).items())), "gc": taken, "cpu": worked}


@dataclass(eq=False)
class BenchPlatform(Platform):
    """The stack's own services, with a lake of the bench's own (`lake_root`); counts calls where that is asked for."""

    counted: bool = False

    _profile: Profile = field(default_factory=Profile, init=False)

    def begin_profile(self) -> Profile:
        """A new profile of all that is done from now on; without `counted` it holds no calls."""
        self._profile = Profile()
        return self._profile

    def spark(self) -> SparkSessions:
        """Sessions whose calls are counted, where that was asked for."""
        if not self.counted:
            return super().spark()
        remote = settings.address("CDC_SPARK_REMOTE")
        return _CountedSessions(remote, settings.key(remote, "CDC_SPARK_TOKEN_FILE"), self._profile.calls)


class _CountedSessions(SparkSessions):
    def __init__(self, remote: str, token: str, calls: Counter[str]) -> None:
        super().__init__(remote, token)
        self._calls = calls

    def open_session(self, token: str, session_id: str = "") -> SparkSession:
        from spark.table.spark_session import connect

        return connect(self.remote, token, interceptors=[count_calls(self._calls.update)], session_id=session_id)


def count_calls(tell: Callable[[list[str]], None]) -> Any:
    """Tells the kind of each call: ExecutePlan, AnalyzePlan, Config, …"""
    import grpc

    class Count(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor):
        def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
            tell([details.method.rpartition("/")[2]])
            return go_on(details, request)

        intercept_unary_stream = intercept_stream_unary = intercept_unary_unary

    return Count()


def collector_times(pid: int) -> dict[str, float]:
    """Seconds that each garbage collector of a JVM took so far, by its name; and how often it ran, as `… runs`.

    From the file that HotSpot keeps for jstat (hsperfdata, version 2.0: a prologue of 32 bytes, then entries). Empty where
    there is none.
    """
    file = next(Path("/tmp").glob(f"hsperfdata_*/{pid}"), None)
    if file is None:
        return {}
    values = dict(_entries(file.read_bytes()))
    ticks = float(values.get("sun.os.hrt.frequency", 1_000_000_000))
    found = {}
    for number in range(4):
        place = f"sun.gc.collector.{number}"
        if f"{place}.time" in values:
            name = str(values.get(f"{place}.name", number))
            found[name] = float(values[f"{place}.time"]) / ticks
            found[f"{name} runs"] = float(values[f"{place}.invocations"])
    return found


def _entries(data: bytes) -> Iterator[tuple[str, int | str]]:
    order = "<" if data[4] == 1 else ">"
    at, count = struct.unpack_from(f"{order}ii", data, 24)
    for _ in range(count):
        length, name_at, vector = struct.unpack_from(f"{order}iii", data, at)
        kind, value_at = chr(data[at + 12]), struct.unpack_from(f"{order}i", data, at + 16)[0]
        name = data[at + name_at :].split(b"\0", 1)[0].decode()
        if kind == "J" and not vector:
            yield name, struct.unpack_from(f"{order}q", data, at + value_at)[0]
        elif kind == "B" and vector:
            yield name, data[at + value_at : at + value_at + vector].split(b"\0", 1)[0].decode(errors="replace")
        at += length
