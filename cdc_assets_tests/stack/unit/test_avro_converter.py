"""The class that is shipped is its source, compiled."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from cdc_assets.stack.avro_converter import CLASS, PLUGIN, class_file, write_jar
from cdc_assets_tests.support.lake.jvm import locked_jars

RELEASE = 17


def test_the_jar_says_what_it_has(tmp_path: Path) -> None:
    write_jar(tmp_path / "a.jar")
    write_jar(tmp_path / "b.jar")
    assert (tmp_path / "a.jar").read_bytes() == (tmp_path / "b.jar").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.jar") as jar:
        names = jar.read("META-INF/services/org.apache.kafka.connect.storage.Converter").decode().split()
        assert jar.read("cdc_assets/NullKeepingAvroConverter.class") == class_file().read_bytes()
    assert names[0] == CLASS
    assert class_file().read_bytes()[:8] == bytes.fromhex("cafebabe0000") + (44 + RELEASE).to_bytes(2, "big")


@pytest.mark.slow
def test_the_class_is_its_source_compiled(tmp_path: Path) -> None:
    javac = shutil.which("javac")
    version = javac and subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout
    if not version or not re.match(rf"javac {RELEASE}\b", version):
        pytest.skip(f"only a JDK {RELEASE} compiles to the same bytes; here is {version or 'none'}")
    classes = ":".join(str(jar) for name in ("kafka", PLUGIN) for jar in locked_jars(name))
    source = class_file().with_suffix(".java")
    command = [str(javac), "--release", str(RELEASE), "-g:none", "-cp", classes, "-d", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (compiled,) = tmp_path.rglob("*.class")
    assert compiled.read_bytes() == class_file().read_bytes()
