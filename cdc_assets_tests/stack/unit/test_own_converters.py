"""The jars that are compiled for a Connect worker: what is in them, when they are made again, and what their classes do."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.stack import own_converters
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.connect_worker import ConnectWorker
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.locked_jars import pyspark_folder
from cdc_assets.stack.own_converters import (
    BOUNDED_JSON,
    NULL_KEEPING_AVRO,
    OWN_CONVERTERS,
    OwnConverter,
    build_jar,
    compile_classes,
    keep_jar,
)
from cdc_assets.stack.runtimes import java
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.lake.jvm import locked_jars
from spark.record_formats import LARGE_HEADER, TOO_LARGE

AVRO_CLASS, JSON_CLASS = NULL_KEEPING_AVRO.converter, BOUNDED_JSON.converter
(ITS_BASE,) = NULL_KEEPING_AVRO.bases
FILE = "cdc_assets/NullKeepingAvroConverter.class"
BOUND = "cdc_assets/SizeBound.class"
SERVICES = "META-INF/services/org.apache.kafka.connect.storage.Converter"
JDKS = sorted({javac.resolve() for javac in Path("/usr/lib/jvm").glob("*/bin/javac")})
RUNNER = "org.codehaus.commons.compiler.samples.ScriptDemo"
# As a worker with plugin.discovery=service_load: each converter of Avro that is found, and what it makes of a NULL.
SCRIPT = """
import java.lang.reflect.Field;
import java.util.*;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.storage.Converter;
import io.apicurio.registry.utils.converter.AvroConverter;
import io.apicurio.registry.utils.converter.avro.AvroData;

Map settings = new HashMap();
settings.put("apicurio.registry.url", "http://127.0.0.1:1/apis/registry/v2");
Schema ten = SchemaBuilder.int32().optional().defaultValue(Integer.valueOf(10)).build();
Schema row = SchemaBuilder.struct().field("ten", ten).build();
Struct given = new Struct(row);
given.put("ten", null);
Iterator found = ServiceLoader.load(Converter.class).iterator();
while (found.hasNext()) {
    Object each = found.next();
    if (each instanceof AvroConverter) {
        ((Converter) each).configure(settings, false);
        Field data = AvroConverter.class.getDeclaredField("avroData");
        data.setAccessible(true);
        System.out.println(each.getClass().getName() + " " + ((AvroData) data.get(each)).fromConnectData(row, given));
    }
}
"""


# What our converters write for texts of 2,000 and 900 letters (the bound is 1,024 bytes) and for a NULL; and the header.
BOUND_SCRIPT = """
import java.util.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.storage.Converter;

Map settings = new HashMap();
settings.put("schemas.enable", "false");
settings.put("largest.value.bytes", "1024");
Iterator all = ServiceLoader.load(Converter.class).iterator();
while (all.hasNext()) {
    Converter converter = (Converter) all.next();
    if (!converter.getClass().getName().startsWith("cdc_assets.")) continue;
    converter.configure(settings, false);
    for (int length = 2000; length >= -200; length -= 1100) {
        RecordHeaders headers = new RecordHeaders();
        char[] letters = new char[Math.max(0, length)];
        Arrays.fill(letters, 'x');
        Object value = length < 0 ? null : new String(letters);
        byte[] written = converter.fromConnectData("t", headers, Schema.OPTIONAL_STRING_SCHEMA, value);
        Header header = headers.lastHeader("cdc_assets.large");
        System.out.println("WROTE " + length + " " + (written == null ? "null" : new String(written)));
        System.out.println("HEADER " + length + " " + (header == null ? "none" : new String(header.value())));
    }
}
"""


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    for name in ("kafka", NULL_KEEPING_AVRO.plugin):
        locked_jars(name)


def run_script(script: str, jar: Path, executable: Path, *sets: str) -> str:
    """What Janino prints of it, with these jars on its class path."""
    pyspark = [next(pyspark_folder().glob(f"{name}-3*.jar")) for name in ("janino", "commons-compiler")]
    classes = ":".join(str(file) for file in (jar, *pyspark, *(file for name in (*sets, "kafka") for file in locked_jars(name))))
    command = [str(executable), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes, RUNNER]
    done = subprocess.run([*command, "-te", "java.lang.Exception", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nulls_of_converters(jar: Path, executable: Path) -> dict[str, str]:
    """By class, what a converter that is found among these jars writes for a NULL in a column with a default."""
    printed = run_script(SCRIPT, jar, executable, NULL_KEEPING_AVRO.plugin)
    return dict(re.findall(r"^(\S+Converter) (\{.*\})$", printed, re.MULTILINE))


EXPECTED = {AVRO_CLASS: '{"ten": null}', ITS_BASE: '{"ten": 10}'}


@pytest.mark.slow
def test_the_jar_is_found_as_a_plugin_and_keeps_nulls(tmp_path: Path) -> None:
    jar = tmp_path / NULL_KEEPING_AVRO.jar
    keep_jar(NULL_KEEPING_AVRO, jar)
    with zipfile.ZipFile(jar) as packed:
        assert packed.read(SERVICES).decode().split() == [AVRO_CLASS, ITS_BASE]
        assert packed.read(FILE)[:4] == bytes.fromhex("cafebabe")
        assert packed.namelist() == [SERVICES, FILE, BOUND]
    assert nulls_of_converters(jar, java()) == EXPECTED


@pytest.mark.slow
def test_a_value_above_the_bound_becomes_a_sentence_that_bronze_knows(tmp_path: Path) -> None:
    jar = tmp_path / BOUNDED_JSON.jar
    keep_jar(BOUNDED_JSON, jar)
    with zipfile.ZipFile(jar) as packed:
        assert packed.read(SERVICES).decode().split() == [JSON_CLASS]
    printed = run_script(BOUND_SCRIPT, jar, java())
    lines = {
        (kind, int(length)): text for kind, length, text in re.findall(r"^(WROTE|HEADER) (-?\d+) (.*)$", printed, re.MULTILINE)
    }
    whole = ('"' + "x" * 2000 + '"').encode()
    digest = hashlib.sha256(whole).hexdigest()
    sentence = f"{TOO_LARGE}: {len(whole)} bytes, above the 1024 of its connector; sha256 of its value {digest}"
    assert lines == {
        ("WROTE", 2000): sentence,
        ("HEADER", 2000): sentence,
        ("WROTE", 900): '"' + "x" * 900 + '"',
        ("HEADER", 900): "none",
        ("WROTE", -200): "null",
        ("HEADER", -200): "none",
    }
    assert f'HEADER = "{LARGE_HEADER}"' in BOUNDED_JSON.sources[1].read_text()


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("javac", JDKS or [None], ids=lambda javac: javac and javac.parents[1].name)
def test_a_jdk_compiles_it_to_what_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, javac: Path | None) -> None:
    if not javac:
        pytest.skip("no JDK in /usr/lib/jvm")
    ours = compile_classes(NULL_KEEPING_AVRO)
    monkeypatch.setenv("JAVA_HOME", str(javac.parents[1]))
    assert java() == javac.with_name("java")
    assert compile_classes(NULL_KEEPING_AVRO) == ours, "whichever Java the compiler runs on"
    classes = ":".join(str(jar) for name in NULL_KEEPING_AVRO.sets for jar in locked_jars(name))
    sources = [str(file) for file in NULL_KEEPING_AVRO.sources]
    subprocess.run([str(javac), "-Xlint:all,-rawtypes", "-cp", classes, "-d", str(tmp_path / "out"), *sources], check=True)
    theirs = {file: (tmp_path / "out" / file).read_bytes() for file in ours}
    for name, code in (("theirs", theirs), ("ours", ours)):
        jar = tmp_path / f"{name}.jar"
        with zipfile.ZipFile(jar, "w") as packed:
            packed.writestr(SERVICES, f"{AVRO_CLASS}\n{ITS_BASE}\n")
            for file, content in code.items():
                packed.writestr(file, content)
        assert nulls_of_converters(jar, java()) == EXPECTED, name


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled, in place of the compiler."""
    made: list[str] = []

    def compile_nothing(converter: OwnConverter) -> dict[str, bytes]:
        made.append(converter.converter)
        return {FILE: b"code"}

    monkeypatch.setattr(own_converters, "compile_classes", compile_nothing)
    return made


def sources_in(folder: Path, converter: OwnConverter, change: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    for source in converter.sources:
        (folder / source.name).write_text(change(source.read_text()))
    monkeypatch.setattr(own_converters, "_FOLDER", folder)


def changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Path], object]]:
    other = folder / "pyspark"
    other.mkdir()
    for name in ("janino", "commons-compiler"):
        (other / f"{name}-3.2.0.jar").write_bytes(b"another")
    fewer = own_converters.jars_to_read(NULL_KEEPING_AVRO)[1:]
    return {
        "gone": lambda jar: jar.unlink(),
        "empty, as after a power cut": lambda jar: jar.write_bytes(b""),
        "cut": lambda jar: jar.write_bytes(jar.read_bytes()[:-1]),
        "source": lambda jar: sources_in(folder, NULL_KEEPING_AVRO, lambda text: text + "\n", monkeypatch),
        "compiler": lambda jar: monkeypatch.setattr(own_converters, "pyspark_folder", lambda: other),
        "what it reads": lambda jar: monkeypatch.setattr(own_converters, "jars_to_read", lambda converter: fewer),
    }


def test_the_jar_is_kept_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    jar = tmp_path / NULL_KEEPING_AVRO.jar
    keep_jar(NULL_KEEPING_AVRO, jar)
    whole = jar.read_bytes()
    assert build_jar(NULL_KEEPING_AVRO) == whole
    keep_jar(NULL_KEEPING_AVRO, jar)
    assert len(compilations) == 2
    for number, (what, change) in enumerate(changes(tmp_path, monkeypatch).items(), 3):
        change(jar)
        for _ in range(2):
            keep_jar(NULL_KEEPING_AVRO, jar)
        assert len(compilations) == number, what
        assert zipfile.ZipFile(jar).testzip() is None, what


def test_a_worker_has_both_and_compiles_each_once(tmp_path: Path, compilations: list[str]) -> None:
    ports = {"core-connect": 1, "core-connect-jmx": 2, "core-kafka": 3}
    worker = ConnectWorker(Site(Home(tmp_path).create(), ports, plugins=(NULL_KEEPING_AVRO.plugin,)), "core")
    for _ in range(2):
        worker.prepare()
        plugins = worker.run / "plugins"
        beside = {jar.name for jar in locked_jars(NULL_KEEPING_AVRO.plugin)}
        assert {file.name for file in (plugins / NULL_KEEPING_AVRO.plugin).iterdir()} == {NULL_KEEPING_AVRO.jar, *beside}
        assert [file.name for file in (plugins / BOUNDED_JSON.plugin).iterdir()] == [BOUNDED_JSON.jar]
        for converter in OWN_CONVERTERS:
            assert zipfile.ZipFile(plugins / converter.plugin / converter.jar).read(FILE) == b"code"
    assert sorted(compilations) == [JSON_CLASS, AVRO_CLASS]


@pytest.mark.all
@pytest.mark.slow
def test_what_cannot_be_compiled_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources_in(tmp_path, NULL_KEEPING_AVRO, lambda text: text.replace("setBoolean", "setBoth"), monkeypatch)
    with pytest.raises(StackError, match='NullKeepingAvroConverter.java cannot be compiled: .*Line 30.* named "setBoth"'):
        keep_jar(NULL_KEEPING_AVRO, tmp_path / "a.jar")
    assert not (tmp_path / "a.jar").exists()


def test_without_a_compiler_it_says_where_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_converters, "pyspark_folder", lambda: tmp_path)
    with pytest.raises(StackError, match=re.escape(f"{tmp_path} has no compiler of Java")):
        keep_jar(BOUNDED_JSON, tmp_path / BOUNDED_JSON.jar)


@pytest.mark.all
@pytest.mark.slow
def test_the_command_writes_it_for_a_worker_of_ones_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cdc_assets.stack.own_converters"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for converter in OWN_CONVERTERS:
        subprocess.run([*command, str(tmp_path / converter.jar)], check=True, env=environment, cwd=tmp_path)
        assert (tmp_path / converter.jar).read_bytes() == build_jar(converter)
    done = subprocess.run([*command, "a.jar"], capture_output=True, text=True, check=False, env=environment)
    names = " | ".join(converter.jar for converter in OWN_CONVERTERS)
    assert (done.returncode, done.stderr) == (1, f"usage: python -m cdc_assets.stack.own_converters {names}\n")
