"""The jar lock and the downloader, against a web server of our own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cdc_assets.stack import component_plan
from cdc_assets.stack.jars import locked_jars
from cdc_assets.stack.jars.jar_sets import SETS
from cdc_assets.stack.jars.locked_jars import Jar, JarLock, download, missing, read_lock, repository, write_lock
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.stack.web import serve

CONTENT = bytes(range(256)) * 2000


def a_jar(content: bytes = CONTENT, artifact: str = "thing") -> Jar:
    return Jar(f"org.example:{artifact}:1.0", hashlib.sha256(content).hexdigest(), len(content))


def test_the_committed_lock_holds_every_declared_coordinate() -> None:
    lock = read_lock()
    assert set(lock.sets) == set(SETS)
    for name, jar_set in SETS.items():
        locked = {jar.gav for jar in lock.sets[name]}
        assert set(jar_set.coordinates) <= locked
        artifacts = [jar.gav.rpartition(":")[0] for jar in lock.sets[name]]
        assert len(artifacts) == len(set(artifacts)), "one version of each artifact"
    plugin = {jar.gav.split(":")[1] for jar in lock.sets["debezium-postgres"]}
    assert not plugin & {"connect-api", "kafka-clients", "slf4j-api"}
    with_s3 = {name for name, jars in lock.sets.items() if any("hadoop-aws" in jar.gav for jar in jars)}
    assert with_s3 == {"spark-s3"}
    assert {name for name, jars in lock.sets.items() if any("gcs-connector" in jar.gav for jar in jars)} == {"spark-gcs"}


def test_the_jars_of_a_store_are_fetched_only_for_a_lake_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_LAKE", raising=False)
    of_stores = {"spark-s3", "spark-gcs"}
    assert not of_stores & {*component_plan.jar_sets()}
    monkeypatch.setenv("CDC_LAKE", "/data/lake")
    assert not of_stores & {*component_plan.jar_sets()}
    for root, name in (("s3a://lake/of/ours", "spark-s3"), ("gs://lake/of/ours", "spark-gcs")):
        monkeypatch.setenv("CDC_LAKE", root)
        assert of_stores & {*component_plan.jar_sets()} == {name}


def test_a_lock_reads_back_as_written_and_as_toml(tmp_path: Path) -> None:
    file = tmp_path / "x.lock.toml"
    lock = JarLock("http://repo", {"a": (a_jar(artifact="one"), a_jar(artifact="two")), "b": ()})
    write_lock(lock, file)
    assert read_lock(file) == lock
    tomllib = pytest.importorskip("tomllib")
    assert tomllib.loads(file.read_text())["a"][0]["size"] == len(CONTENT)
    file.write_text('repository = "x"\nnonsense\n', encoding="utf-8")
    with pytest.raises(StackError, match=r"x\.lock\.toml:2 is not a line of a jar lock: nonsense"):
        read_lock(file)


def test_only_what_is_missing_is_fetched(tmp_path: Path) -> None:
    jars = [a_jar(artifact=f"n{number}") for number in range(5)]
    with serve() as site:
        site.files = {f"/{jar.path}": CONTENT for jar in jars}
        seen: list[int] = []
        download(jars[:2], tmp_path, repository=site.url)
        download(jars, tmp_path, repository=site.url, progress=seen.append)
        assert sorted(path for path, *_ in site.requests) == sorted(f"/{jar.path}" for jar in jars)
    assert sum(seen) == 3 * len(CONTENT)
    assert missing(jars, tmp_path) == []
    assert not list(tmp_path.rglob("*.part"))


def test_a_file_that_is_not_the_locked_one_never_enters_the_cache(tmp_path: Path) -> None:
    jar = a_jar()
    with serve() as site:
        site.files[f"/{jar.path}"] = CONTENT[:-1] + b"!"
        with pytest.raises(StackError, match=rf"{jar.path} is not the locked file: sha256 .*, expected {jar.sha256}"):
            download([jar], tmp_path, repository=site.url)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_jar_that_was_changed_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    """Of the same size: only its hash tells."""
    jar = a_jar()
    file = tmp_path / jar.path
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    assert missing([jar], tmp_path) == []
    file.write_bytes(bytes(reversed(CONTENT)))
    assert missing([jar], tmp_path) == [jar]
    other = tmp_path / "other"
    other.write_bytes(CONTENT)
    other.replace(file)
    assert missing([jar], tmp_path) == []


def test_a_broken_line_is_resumed_where_it_broke(tmp_path: Path) -> None:
    jar = a_jar()
    with serve() as site:
        site.files[f"/{jar.path}"] = CONTENT
        site.failures[f"/{jar.path}"] = [100_000, 503]
        download([jar], tmp_path, repository=site.url)
        ranges = [range_ for _, range_, _ in site.requests]
    assert ranges[0] is None
    assert ranges[1] == ranges[2]
    begun = int((ranges[1] or "").removeprefix("bytes=").removesuffix("-"))
    assert 0 < begun <= 100_000
    assert (tmp_path / jar.path).read_bytes() == CONTENT


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    with serve() as site, pytest.raises(StackError, match=r"404.*\n.*MAVEN_MIRROR_URL"):
        download([a_jar()], tmp_path, repository=site.url)


SETTINGS = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors>
<mirror><id>x</id><url>http://snapshots</url><mirrorOf>snapshots</mirrorOf></mirror>
<mirror><id>y</id><url>http://corp/maven/</url><mirrorOf>{of}</mirrorOf></mirror></mirrors></settings>"""


@pytest.mark.parametrize(
    ("environment", "mirror_of", "expected"),
    [
        ({}, None, "http://default"),
        ({"MAVEN_MIRROR_URL": "http://m/"}, "central", "http://m"),
        ({"COURSIER_REPOSITORIES": "ivy2Local|http://c|central"}, "central", "http://c"),
        ({"COURSIER_REPOSITORIES": "ivy2Local|central"}, "central", "http://corp/maven"),
        ({}, "*", "http://corp/maven"),
        ({}, "*,!central", "http://default"),
        ({}, "jcenter", "http://default"),
    ],
)
def test_the_mirror_of_the_usual_places(
    tmp_path: Path, environment: dict[str, str], mirror_of: str | None, expected: str
) -> None:
    settings = tmp_path / "settings.xml"
    if mirror_of:
        settings.write_text(SETTINGS.format(of=mirror_of), encoding="utf-8")
    assert repository("http://default/", environment, settings) == expected


def test_a_jar_that_pyspark_brings_is_not_fetched(tmp_path: Path) -> None:
    wheel, cache = tmp_path / "wheel", tmp_path / "cache"
    wheel.mkdir()
    same, other = a_jar(artifact="same"), a_jar(artifact="other")
    (wheel / same.path.name).write_bytes(CONTENT)
    (wheel / other.path.name).write_bytes(CONTENT[::-1])
    assert locked_jars.take_from_pyspark([same, other], cache, wheel) == [same]
    assert (cache / same.path).read_bytes() == CONTENT
    assert missing([same, other], cache) == [other]
    assert locked_jars.take_from_pyspark([same, other], cache, wheel) == []


def test_kafka_compresses_with_the_files_of_pyspark(tmp_path: Path) -> None:
    taken = {jar.gav.split(":")[1] for jar in locked_jars.take_from_pyspark(read_lock().sets["kafka"], tmp_path)}
    assert {"zstd-jni", "snappy-java"} <= taken
