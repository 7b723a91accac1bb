"""What Apicurio's converter lacks on a Connect worker: that a NULL stays NULL, and that a worker finds it among its plugins.

One small jar beside Apicurio's own, compiled where it is needed from `converter/`'s Java file: by Janino, a Java compiler that
the pyspark wheel brings for Spark's own use (ADR 101). The embedded worker gets it by itself; for
a worker of one's own: `python -m cdc_assets.stack.avro_converter null-keeping-avro-converter.jar`.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from cdc_assets.registry.durable_file import replace_file
from cdc_assets.stack.jars.locked_jars import Jar, cache_folder, download, pyspark_folder, read_lock, repository, sha256
from cdc_assets.stack.runtimes import install_command, java_command
from cdc_assets.stack.stack_errors import StackError

PLUGIN = "apicurio-converter"
"""The set of jars that it belongs to (stack.jars.jar_sets)."""
JAR = "null-keeping-avro-converter.jar"
CLASS = "cdc_assets.NullKeepingAvroConverter"
ITS_BASE = "io.apicurio.registry.utils.converter.AvroConverter"
SOURCE = Path(__file__).with_name("converter") / f"{CLASS.rpartition('.')[2]}.java"
# A compiler's command line, as javac's (https://janino-compiler.github.io/janino/#code-examples).
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_ITS_JARS = ("janino", "commons-compiler")
# What the class and its base name.
_READ = ("connect-api", "kafka-clients", "apicurio-registry-utils-converter")
# Two at most on a machine that does little else.
_PATIENCE_S = 120
_SERVICES = "META-INF/services/org.apache.kafka.connect.storage.Converter"
# The same bytes each time.
_TIME = (1980, 1, 1, 0, 0, 0)


def keep_jar(file: Path) -> None:
    """Write the jar, unless it is there and its source, its compiler and what that reads have not changed since.

    Raises:
        StackError: with what the compiler said, or that there is none.
    """
    if _note_of(file) != _note():
        replace_file(file, build_jar())


def build_jar() -> bytes:
    """Our class, and the names of both converters: Apicurio's jar does not say that it has one (plugin.discovery).

    Raises:
        StackError: with what the compiler said, or that there is none.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        jar.comment = _note()
        jar.writestr(zipfile.ZipInfo(_SERVICES, _TIME), f"{CLASS}\n{ITS_BASE}\n")
        jar.writestr(zipfile.ZipInfo(_class_file(), _TIME), compile_class())
    return packed.getvalue()


def compile_class() -> bytes:
    """What the compiler makes of the Java file.

    Raises:
        StackError: with what the compiler said, or that there is none.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder)
        compiler = java_command(_COMPILER, class_path=compiler_jars(), heap_mb=128, arguments_file=out / "java.args")
        read = ":".join(str(cache_folder() / jar.path) for jar in jars_to_read())
        command = [*compiler, "-d", folder, "-classpath", read, "-encoding", "UTF-8", str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired as error:
            reason = f"{SOURCE.name} is not compiled after {_PATIENCE_S} s"
            raise StackError("avro_converter", reason, "./cdc up, when the machine is less busy") from error
        if done.returncode:
            output = (done.stderr + done.stdout).strip()
            raise StackError("avro_converter", f"{SOURCE.name} cannot be compiled: {output}", install_command())
        return (out / _class_file()).read_bytes()


def jars_to_read() -> list[Jar]:
    """The locked jars that the source is compiled against."""
    return [jar for jar in read_lock().jars(("kafka", PLUGIN)) if jar.gav.split(":")[1] in _READ]


def _class_file() -> str:
    return f"{CLASS.replace('.', '/')}.class"


def compiler_jars() -> list[Path]:
    """Those of the Java compiler that the pyspark wheel brings.

    Raises:
        StackError: it does not.
    """
    folder = pyspark_folder()
    jars = [jar for name in _ITS_JARS for jar in sorted(folder.glob(f"{name}-[0-9]*.jar"))]
    if len(jars) != len(_ITS_JARS):
        reason = f"{folder} has no compiler of Java: {[f'{name}-*.jar' for name in _ITS_JARS]}, each once"
        raise StackError("avro_converter", reason, install_command())
    return jars


def _note() -> bytes:
    """What the jar is made of: its comment."""
    made_of = [sha256(SOURCE), *(sha256(jar) for jar in compiler_jars()), *(jar.sha256 for jar in jars_to_read())]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest().encode()


def _note_of(file: Path) -> bytes | None:
    try:
        with zipfile.ZipFile(file) as jar:
            return jar.comment
    except (FileNotFoundError, zipfile.BadZipFile):
        return None


def main() -> None:
    """Fetch what the compiler reads, compile, and write the jar."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python -m cdc_assets.stack.avro_converter {JAR}")
    try:
        download(jars_to_read(), cache_folder(), repository=repository(read_lock().repository))
        Path(sys.argv[1]).write_bytes(build_jar())
    except StackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
