"""The jar that is compiled for a Connect worker: what is in it, when it is made again, and what its class does."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.stack import avro_converter
from cdc_assets.stack.avro_converter import CLASS, ITS_BASE, JAR, PLUGIN, SOURCE, build_jar, compile_class, keep_jar
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.connect_worker import ConnectWorker
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.locked_jars import pyspark_folder
from cdc_assets.stack.runtimes import java
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.lake.jvm import locked_jars

FILE = "cdc_assets/NullKeepingAvroConverter.class"
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


@pytest.fixture(autouse=True, scope="module")
def _jars() -> None:
    for name in ("kafka", PLUGIN):
        locked_jars(name)


def nulls_of_converters(jar: Path, executable: Path) -> dict[str, str]:
    """By class, what a converter that is found among these jars writes for a NULL in a column with a default."""
    pyspark = [next(pyspark_folder().glob(f"{name}-3*.jar")) for name in ("janino", "commons-compiler")]
    classes = ":".join(str(each) for each in (jar, *pyspark, *locked_jars(PLUGIN), *locked_jars("kafka")))
    command = [str(executable), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes, RUNNER]
    done = subprocess.run([*command, "-te", "java.lang.Exception", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(re.findall(r"^(\S+Converter) (\{.*\})$", done.stdout, re.MULTILINE))


EXPECTED = {CLASS: '{"ten": null}', ITS_BASE: '{"ten": 10}'}


@pytest.mark.slow
def test_the_jar_is_found_as_a_plugin_and_keeps_nulls(tmp_path: Path) -> None:
    jar = tmp_path / JAR
    keep_jar(jar)
    with zipfile.ZipFile(jar) as packed:
        assert packed.read(SERVICES).decode().split() == [CLASS, ITS_BASE]
        assert packed.read(FILE)[:4] == bytes.fromhex("cafebabe")
        assert packed.namelist() == [SERVICES, FILE]
    assert nulls_of_converters(jar, java()) == EXPECTED


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.parametrize("javac", JDKS or [None], ids=lambda javac: javac and javac.parents[1].name)
def test_a_jdk_compiles_it_to_what_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, javac: Path | None) -> None:
    if not javac:
        pytest.skip("no JDK in /usr/lib/jvm")
    ours = compile_class()
    monkeypatch.setenv("JAVA_HOME", str(javac.parents[1]))
    assert java() == javac.with_name("java")
    assert compile_class() == ours, "whichever Java the compiler runs on"
    classes = ":".join(str(jar) for name in ("kafka", PLUGIN) for jar in locked_jars(name))
    subprocess.run([str(javac), "-Xlint:all", "-cp", classes, "-d", str(tmp_path / "out"), str(SOURCE)], check=True)
    for name, code in (("theirs", (tmp_path / "out" / FILE).read_bytes()), ("ours", ours)):
        jar = tmp_path / f"{name}.jar"
        with zipfile.ZipFile(jar, "w") as packed:
            packed.writestr(SERVICES, f"{CLASS}\n{ITS_BASE}\n")
            packed.writestr(FILE, code)
        assert nulls_of_converters(jar, java()) == EXPECTED, name


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was compiled, in place of the compiler."""
    made: list[bytes] = []

    def compile_nothing() -> bytes:
        made.append(SOURCE.read_bytes())
        return b"code"

    monkeypatch.setattr(avro_converter, "compile_class", compile_nothing)
    return made


def changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Path], object]]:
    source = folder / SOURCE.name
    source.write_bytes(SOURCE.read_bytes() + b"\n")
    other = folder / "pyspark"
    other.mkdir()
    for name in ("janino", "commons-compiler"):
        (other / f"{name}-3.2.0.jar").write_bytes(b"another")
    fewer = avro_converter.jars_to_read()[1:]
    return {
        "gone": lambda jar: jar.unlink(),
        "empty, as after a power cut": lambda jar: jar.write_bytes(b""),
        "cut": lambda jar: jar.write_bytes(jar.read_bytes()[:-1]),
        "source": lambda jar: monkeypatch.setattr(avro_converter, "SOURCE", source),
        "compiler": lambda jar: monkeypatch.setattr(avro_converter, "pyspark_folder", lambda: other),
        "what it reads": lambda jar: monkeypatch.setattr(avro_converter, "jars_to_read", lambda: fewer),
    }


def test_the_jar_is_kept_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[bytes]
) -> None:
    jar = tmp_path / JAR
    keep_jar(jar)
    whole = jar.read_bytes()
    assert build_jar() == whole
    keep_jar(jar)
    assert len(compilations) == 2
    for number, (what, change) in enumerate(changes(tmp_path, monkeypatch).items(), 3):
        change(jar)
        for _ in range(2):
            keep_jar(jar)
        assert len(compilations) == number, what
        assert zipfile.ZipFile(jar).testzip() is None, what


def test_a_worker_has_it_beside_apicurios_and_compiles_once(tmp_path: Path, compilations: list[bytes]) -> None:
    ports = {"core-connect": 1, "core-connect-jmx": 2, "core-kafka": 3}
    worker = ConnectWorker(Site(Home(tmp_path).create(), ports, plugins=(PLUGIN,)), "core")
    for _ in range(2):
        worker.prepare()
        folder = worker.run / "plugins" / PLUGIN
        names = {file.name for file in folder.iterdir()}
        assert names == {JAR, *(jar.name for jar in locked_jars(PLUGIN))}
        assert zipfile.ZipFile(folder / JAR).read(FILE) == b"code"
    assert len(compilations) == 1


@pytest.mark.all
@pytest.mark.slow
def test_what_cannot_be_compiled_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / SOURCE.name
    wrong.write_text(SOURCE.read_text().replace("setBoolean", "setBoth"))
    monkeypatch.setattr(avro_converter, "SOURCE", wrong)
    with pytest.raises(StackError, match='NullKeepingAvroConverter.java cannot be compiled: .*Line 25.* named "setBoth"'):
        keep_jar(tmp_path / JAR)
    assert not (tmp_path / JAR).exists()


def test_without_a_compiler_it_says_where_none_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_converter, "pyspark_folder", lambda: tmp_path)
    with pytest.raises(StackError, match=re.escape(f"{tmp_path} has no compiler of Java")):
        keep_jar(tmp_path / JAR)


@pytest.mark.all
@pytest.mark.slow
def test_the_command_writes_it_for_a_worker_of_ones_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cdc_assets.stack.avro_converter"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([*command, str(tmp_path / "a.jar")], check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "a.jar").read_bytes() == build_jar()
    with zipfile.ZipFile(io.BytesIO(build_jar())) as jar:
        assert jar.read(FILE) == compile_class()
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, f"usage: python -m cdc_assets.stack.avro_converter {JAR}\n")
