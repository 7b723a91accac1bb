"""What a pinned connector makes of statements: `ReadStatements.java` on its own jars, in a JVM for as many as one likes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from cdc_assets.capture.connectors.debezium_settings import binlog_value_settings
from cdc_assets.registry.record_forms import ValueForms
from cdc_assets.stack.jars.locked_jars import cache_folder, download, read_lock, repository
from cdc_assets.stack.own_converters import compiler_jars
from cdc_assets.stack.runtimes import java_command
from cdc_assets_tests.programs.whole_java import whole_java

SOURCE = Path(__file__).with_name("ReadStatements.java")
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_PREFIXES = {"mariadb": "MariaDb", "mysql": "MySql"}
_NEVER_ASKED = {
    **{"topic.prefix": "x", "database.hostname": "x", "database.user": "x", "database.server.id": "7"},
    **{f"schema.history.internal.kafka.{name}": "x:1" for name in ("bootstrap.servers", "topic")},
}


def read_statements(kind: str, histories: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answer to each history, in the form of the Java file; `kind`: mariadb or mysql."""
    values = binlog_value_settings(ValueForms(temporal="adaptive_time_microseconds"))
    lines = "\n".join(json.dumps(line) for line in ({**_NEVER_ASKED, **values}, *histories))
    with tempfile.TemporaryDirectory() as folder:
        command = _java("cdc_assets.ReadStatements", [_compiled(kind), *_jars(kind)], Path(folder))
        command += [kind, _PREFIXES[kind]]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def _java(main: str, class_path: Iterable[Path], folder: Path) -> list[str]:
    """On a Java with all character sets: the stack's own is trimmed."""
    command = java_command(main, class_path=class_path, heap_mb=700, arguments_file=folder / "java.args")
    return [str(whole_java()), *command[1:]]


@cache
def _jars(kind: str) -> list[Path]:
    lock = read_lock()
    jars = lock.jars(("kafka", f"debezium-{kind}"))
    download(jars, cache_folder(), repository=repository(lock.repository))
    return [cache_folder() / jar.path for jar in jars]


def _compiled(kind: str) -> Path:
    """The folder of the compiled file, made once for each of its versions."""
    jars = _jars(kind)
    made_of = hashlib.sha256(SOURCE.read_bytes() + "\n".join(map(str, jars)).encode()).hexdigest()[:16]
    folder = cache_folder().parent / "tests" / f"read-statements-{kind}-{made_of}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            command = _java(_COMPILER, compiler_jars(), Path(new))
            command += ["-d", new, "-classpath", ":".join(map(str, jars)), "-encoding", "UTF-8", str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            Path(new).rename(folder)
            Path(new).mkdir()
    return folder
