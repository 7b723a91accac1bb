"""The stream that is measured: one that ends before its time makes no figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench.errors import BenchError
from benchmarks.bench.stream_process import stream_of


def test_a_stream_that_did_not_go_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path))
    with pytest.raises(BenchError, match="cdc stream nowhere ended with"), stream_of("nowhere"):
        pass
