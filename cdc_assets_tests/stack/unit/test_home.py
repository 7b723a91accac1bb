"""The folder of local state: what several components make at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from cdc_assets.stack.home import Home, write_once


def test_writers_at_the_same_time_agree_on_one_text(tmp_path: Path) -> None:
    writers = 8
    with ThreadPoolExecutor(writers) as pool:
        for attempt in range(50):
            file, barrier = tmp_path / f"id-{attempt}", Barrier(writers)

            def write(text: str, file: Path = file, barrier: Barrier = barrier) -> str:
                barrier.wait()
                return write_once(file, text)

            seen = set(pool.map(write, [f"text {n}" for n in range(writers)]))
            assert seen == {file.read_text()}
            assert file.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {f"id-{n}" for n in range(50)}


def test_a_secret_keeps_its_value(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    first = home.secret("bank_db_password")
    assert len(first) >= 32
    assert home.secret("bank_db_password") == first
