"""A table's folder on a disk and in the stack's endpoints: the same names, the same answers, one winner for each name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.errors import EndpointError, JobRefusedError
from spark.table import buckets
from spark.table.lake_location import StorePlace, is_local, is_object, store_place
from spark.table.table_folder import open_folder


def test_what_is_written_is_there(lake_root: str) -> None:
    folder = open_folder(f"{lake_root}/t")
    folder.make()
    with pytest.raises(FileNotFoundError):
        folder.read("a.txt")
    folder.put("a.txt", "ü\nzwei".encode())
    # As JSON has a text: these end no line.
    folder.put("a.txt", "ü\ndr\u2028e\x85i\n".encode())
    assert folder.read("a.txt").decode() == "ü\ndr\u2028e\x85i\n"
    assert list(folder.lines("a.txt")) == ["ü\n", "dr\u2028e\x85i\n"]
    assert folder.size("a.txt") == len("ü\ndr\u2028e\x85i\n".encode())
    folder.delete("a.txt")
    folder.delete("a.txt")
    with pytest.raises(FileNotFoundError):
        list(folder.lines("a.txt"))


def test_names_are_listed_in_their_order_and_not_those_below(lake_root: str) -> None:
    folder = open_folder(f"{lake_root}/t")
    folder.make()
    assert folder.names("log") == []
    assert not folder.has_files("log")
    for name in ("b", "a", "c", "ä"):
        assert folder.put_if_absent(f"log/{name}", b"x")
    open_folder(f"{lake_root}/t/log/below").make()
    open_folder(f"{lake_root}/t/log/below").put("d", b"x")
    assert [name for name in folder.names("log") if name != "below"] == ["a", "b", "c", "ä"]
    assert [name for name in folder.names("log", after="b") if name != "below"] == ["c", "ä"]
    assert folder.has_files("log")
    assert not open_folder(f"{lake_root}/t2").has_files("log")


def test_files_are_told_with_bytes_and_times(lake_root: str) -> None:
    folder = open_folder(f"{lake_root}/t")
    folder.make()
    assert (folder.facts("log"), folder.tree()) == ([], [])
    before = folder.now()
    for name in ("a.bin", "p=1/b.bin", "p=1/q=2/c.bin", "_delta_log/0.json", "p=1/_hidden/d.bin", ".e/f.bin"):
        below, _, last = name.rpartition("/")
        open_folder(f"{lake_root}/t/{below}").make()
        open_folder(f"{lake_root}/t/{below}").put(last, name.encode())
    assert {(file.name, file.size) for file in folder.tree()} == {("a.bin", 5), ("p=1/b.bin", 9), ("p=1/q=2/c.bin", 13)}
    [commit] = folder.facts("_delta_log")
    assert (commit.name, commit.size) == ("0.json", len("_delta_log/0.json"))
    # Stores tell whole seconds.
    assert before - 1.0 <= commit.at <= folder.now() + 1.0


def test_more_names_than_a_store_lists_at_a_time(object_lake: str) -> None:
    folder = open_folder(f"{object_lake}/t")
    wanted = [f"{number:05}" for number in range(1_050)]
    folder.map(lambda name: folder.put(f"log/{name}", b""), wanted)
    assert folder.names("log") == wanted
    assert folder.names("log", after="00020") == wanted[21:]


def test_of_many_who_make_a_file_one_wins(lake_root: str) -> None:
    folder = open_folder(f"{lake_root}/t")
    folder.make()
    for number in range(5):
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda n, name=f"log/{number}": folder.put_if_absent(name, str(n).encode()), range(8)))
        assert sum(told) == 1
        assert folder.read(f"log/{number}") == str(told.index(True)).encode()


def test_parquet_goes_through_arrow_itself(lake_root: str) -> None:
    folder = open_folder(f"{lake_root}/t")
    folder.make()
    rows = pa.table({"a": range(1000), "b": [f"v{n}" for n in range(1000)]})
    pq.write_table(rows, "x.parquet", filesystem=folder.filesystem)
    assert pq.read_table("x.parquet", columns=["b"], filesystem=folder.filesystem) == rows.select(["b"])
    assert folder.size("x.parquet") == len(folder.read("x.parquet"))


def test_a_store_that_refuses_is_no_empty_folder(s3_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    folder = open_folder(f"{s3_lake}/t")
    for ask in (lambda: folder.names("log"), lambda: folder.read("a"), lambda: folder.put_if_absent("a", b"")):
        with pytest.raises(EndpointError, match=r"s3a://cdc-backup/.*SignatureDoesNotMatch"):
            ask()


@pytest.mark.service
@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_a_bucket_that_is_not_there_is_no_empty_folder(request: pytest.FixtureRequest, kind: str) -> None:
    folder = open_folder(str(request.getfixturevalue(f"{kind}_lake")).replace("cdc-backup", "no-such-bucket"))
    for ask in (lambda: folder.names("log"), folder.now, lambda: folder.has_files("a"), lambda: folder.put_if_absent("a", b"")):
        with pytest.raises(EndpointError, match="no-such-bucket"):
            ask()


def test_without_a_login_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file.json")
    folder = open_folder("gs://cdc-no-such-bucket/lake")
    for ask in (lambda: folder.names("log"), lambda: folder.read("a"), lambda: folder.put_if_absent("a", b"")):
        with pytest.raises(EndpointError, match=r"no/such/file.json was not found.*GOOGLE_APPLICATION_CREDENTIALS"):
            ask()


def test_a_store_that_nobody_answers_for(gcs_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_REPEAT_SECONDS", 1.0)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    folder = open_folder(f"{gcs_lake}/t")
    for ask in (lambda: folder.names("log"), lambda: folder.read("a"), lambda: folder.put_if_absent("a", b""), folder.now):
        with pytest.raises(EndpointError, match="gs://cdc-backup/.*"):
            ask()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("s3a://lake", StorePlace("s3a", "lake", "")),
        ("s3a://lake/a/b", StorePlace("s3a", "lake", "a/b")),
        ("s3a://lake/a/b/", StorePlace("s3a", "lake", "a/b")),
        ("gs://lake/a", StorePlace("gs", "lake", "a")),
    ],
)
def test_a_place_in_a_store(path: str, found: StorePlace) -> None:
    assert store_place(path) == found
    assert is_object(path)
    assert not is_local(path)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("s3://lake/a", r"write s3a://lake/a"),
        ("gcs://lake/a", r"write gs://lake/a"),
        ("abfss://c@a.dfs.core.windows.net/a", r"no lake can lie at abfss://.*: it is a folder, or begins with s3a://, gs://"),
        ("s3a:///a", "names no bucket and prefix"),
        ("s3a://lake/a//b", "names no bucket and prefix"),
        ("s3a://lake/../b", "names no bucket and prefix"),
        ("s3a://key:secret@lake/b", "names no bucket and prefix"),
        ("gs://", "names no bucket and prefix"),
    ],
)
def test_what_is_no_place_for_a_lake(path: str, said: str) -> None:
    with pytest.raises(JobRefusedError, match=said):
        store_place(path)
