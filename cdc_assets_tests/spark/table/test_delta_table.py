"""What is kept of a table is what its log says, whatever has become of it; and of two commits to one version one is made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as ByDeltaRs

from spark.errors import CommitLeftOutError, HistoryTooShortError, LeftToSparkError, TableStopError
from spark.table import delta_table
from spark.table.data_files import write_file
from spark.table.delta_table import commit_info, table_of
from spark.table.log_reader import last_checkpoint
from spark.table.table_folder import open_folder

ROWS = pa.table({"a": [1], "b": ["x"]})


def make(path: Path, interval: int, rows: pa.Table = ROWS) -> str:
    path.mkdir()
    table_of(str(path)).create(rows, {"delta.checkpointInterval": str(interval)}, "")
    return str(path)


def append(path: str, base: int) -> int:
    added = {"add": write_file(open_folder(path), ROWS)}
    return table_of(path).commit(base, [commit_info("WRITE", f"of {base}", {}), added])


def test_a_changed_property_is_seen_at_once(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 100)
    for value in ("one", "two"):
        ByDeltaRs(path).alter.set_table_properties({"cdc.bronzeFrom": value}, raise_if_not_exists=False)
        append(path, ByDeltaRs(path).version())
        assert table_of(path).properties() == ByDeltaRs(path).metadata().configuration
        assert table_of(path).properties()["cdc.bronzeFrom"] == value
    assert table_of(path).columns() == ("a", "b")


def test_a_table_in_anothers_place_has_columns_of_its_own(tmp_path: Path) -> None:
    path, other = make(tmp_path / "t", 100), make(tmp_path / "other", 7, pa.table({"c": [1]}))
    assert table_of(path).columns() == ("a", "b")
    shutil.rmtree(path)
    shutil.move(other, path)
    assert table_of(path).columns() == ("c",)
    assert table_of(path).properties() == {"delta.checkpointInterval": "7"}


def test_checkpoints_are_made_as_the_table_wants_them_and_read(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 3)
    folder = open_folder(path)
    made = []
    for base in range(7):
        append(path, base)
        made.append((last_checkpoint(folder) or {}).get("version"))
    assert made == [None, None, 3, 3, 3, 6, 6]
    for version in range(7):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    table_of.cache_clear()
    assert table_of(path).properties() == {"delta.checkpointInterval": "3"}
    assert ByDeltaRs(path).to_pyarrow_table().num_rows == 8


def test_of_two_commits_to_one_version_one_is_made(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 100)
    assert append(path, 0) == 1
    with pytest.raises(LeftToSparkError, match="somebody else has committed version 1"):
        append(path, 0)


def test_a_log_without_its_beginning_is_not_read_here(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 100)
    append(path, 0)
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    table_of.cache_clear()
    with pytest.raises(FileNotFoundError, match="no log of a table begins here"):
        table_of(path).metadata()
    with pytest.raises(FileNotFoundError, match="no log of a table begins here"):
        table_of(str(tmp_path / "none")).metadata()


def test_a_fold_at_a_version_whose_commits_are_gone_is_no_empty_table(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 100)
    for base in range(4):
        append(path, base)
    versions = table_of(path).fold(lambda commits: [version for version, _ in commits], up_to=2)
    assert versions == [2, 1, 0]
    ByDeltaRs(path).create_checkpoint()
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(HistoryTooShortError, match="does not reach back to version 2"):
        table_of(path).fold(len, up_to=2)
    assert table_of(str(tmp_path / "none")).fold(len, up_to=2) == 0


def test_a_write_is_believed_by_its_operation_and_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another machine's may show the newest commit late: it is looked for once more."""
    monkeypatch.setattr(delta_table, "_LATE_SECONDS", 0.0)
    path = make(tmp_path / "t", 100)
    info = commit_info("WRITE", '{"operation_id":"mine"}', {"numOutputRows": 1})
    table = table_of(path)
    table.commit(0, [info, {"add": write_file(open_folder(path), ROWS)}])
    assert table.find_commit("mine", rows=1).version == 1
    with pytest.raises(TableStopError, match="1 row written, 2 read"):
        table.find_commit("mine", rows=2)
    whole = delta_table.DeltaTable.commits
    looks = [[]]
    monkeypatch.setattr(delta_table.DeltaTable, "commits", lambda *a, **k: looks.pop() if looks else whole(*a, **k))
    assert table.find_commit("mine").version == 1
    with pytest.raises(CommitLeftOutError, match="no commit carries operation another"):
        table.find_commit("another")


def test_what_a_version_added_is_told_by_its_commits(tmp_path: Path) -> None:
    path = make(tmp_path / "t", 100)
    for base in range(3):
        append(path, base)
    told = table_of(path).changes(1, 3)
    assert [len([a for a in actions if "add" in a]) for actions in told] == [1, 1]
    with pytest.raises(FileNotFoundError):
        table_of(path).changes(2, 4)
    assert table_of(path).mark(3) != table_of(path).mark(2)
    assert table_of(path).mark(4) == ""
