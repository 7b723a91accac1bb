"""Converters of ours for a Connect worker: one to JSON, one to Avro. Both write a sentence for a value that Kafka would refuse.

Each is a small jar, compiled where it is needed from `converter/`'s Java files: by Janino, a Java compiler that the pyspark
wheel brings for Spark's own use (ADR 101). The embedded worker gets them by itself; for a worker of one's own:
`python -m cdc_assets.stack.own_converters bounded-json-converter.jar`. To Avro it is Apicurio's, with NULL kept as NULL.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cdc_assets.registry.durable_file import replace_file
from cdc_assets.stack.jars.locked_jars import Jar, cache_folder, download, pyspark_folder, read_lock, repository, sha256
from cdc_assets.stack.runtimes import install_command, java_command
from cdc_assets.stack.stack_errors import StackError


@dataclass(frozen=True)
class OwnConverter:
    """One of our converters, in a jar of its own."""

    jar: str
    """Its file name."""
    plugin: str
    """The plugin's folder on a worker: for Avro the set of jars (stack.jars.jar_sets) that it belongs to."""
    converter: str
    """Its class."""
    bases: tuple[str, ...]
    """Converters of jars beside it that do not say that they have one (plugin.discovery)."""
    reads: tuple[str, ...]
    """Artifacts of the locked jars that its Java files name."""
    sets: tuple[str, ...]
    """The sets of jars that have these."""

    @property
    def sources(self) -> list[Path]:
        """Its own Java file, and the one that all share."""
        return [_FOLDER / f"{name.rpartition('.')[2]}.java" for name in (self.converter, _SHARED)]


_FOLDER = Path(__file__).with_name("converter")
_SHARED = "cdc_assets.SizeBound"
LARGEST_VALUE = "largest.value.bytes"
"""The converters' setting: a larger value becomes a sentence. SizeBound.SETTING."""
BOUNDED_JSON = OwnConverter(
    jar="bounded-json-converter.jar",
    plugin="bounded-json-converter",
    converter="cdc_assets.BoundedJsonConverter",
    bases=(),
    reads=("connect-api", "connect-json", "jackson-annotations", "jackson-core", "jackson-databind", "kafka-clients"),
    sets=("kafka",),
)
NULL_KEEPING_AVRO = OwnConverter(
    jar="null-keeping-avro-converter.jar",
    plugin="apicurio-converter",
    converter="cdc_assets.NullKeepingAvroConverter",
    bases=("io.apicurio.registry.utils.converter.AvroConverter",),
    reads=("connect-api", "kafka-clients", "apicurio-registry-utils-converter"),
    sets=("kafka", "apicurio-converter"),
)
OWN_CONVERTERS = (BOUNDED_JSON, NULL_KEEPING_AVRO)
# A compiler's command line, as javac's (https://janino-compiler.github.io/janino/#code-examples).
_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_ITS_JARS = ("janino", "commons-compiler")
# Two at most on a machine that does little else.
_PATIENCE_S = 120
_SERVICES = "META-INF/services/org.apache.kafka.connect.storage.Converter"
# The same bytes each time.
_TIME = (1980, 1, 1, 0, 0, 0)


def keep_jar(converter: OwnConverter, file: Path) -> None:
    """Write the jar, unless it is there and its sources, its compiler and what that reads have not changed since.
    Raises StackError: with what the compiler said, or that there is none."""
    if _note_of(file) != _note(converter):
        replace_file(file, build_jar(converter))


def build_jar(converter: OwnConverter) -> bytes:
    """Our classes, and the names of the converters that a worker is to find in the folder.
    Raises StackError: with what the compiler said, or that there is none."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        jar.comment = _note(converter)
        services = "".join(f"{name}\n" for name in (converter.converter, *converter.bases))
        jar.writestr(zipfile.ZipInfo(_SERVICES, _TIME), services)
        for name, code in compile_classes(converter).items():
            jar.writestr(zipfile.ZipInfo(name, _TIME), code)
    return packed.getvalue()


def compile_classes(converter: OwnConverter) -> dict[str, bytes]:
    """What the compiler makes of the Java files, by the classes' paths in a jar.
    Raises StackError: with what the compiler said, or that there is none."""
    with TemporaryDirectory() as folder:
        out = Path(folder)
        compiler = java_command(_COMPILER, class_path=compiler_jars(), heap_mb=128, arguments_file=out / "java.args")
        read = ":".join(str(cache_folder() / jar.path) for jar in jars_to_read(converter))
        command = [*compiler, "-d", folder, "-classpath", read, "-encoding", "UTF-8", *map(str, converter.sources)]
        name = converter.sources[0].name
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired as error:
            reason = f"{name} is not compiled after {_PATIENCE_S} s"
            raise StackError("own_converters", reason, "./cdc up, when the machine is less busy") from error
        if done.returncode:
            output = (done.stderr + done.stdout).strip()
            raise StackError("own_converters", f"{name} cannot be compiled: {output}", install_command())
        return {str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("*.class"))}


def jars_to_read(converter: OwnConverter) -> list[Jar]:
    """The locked jars that the sources are compiled against."""
    return [jar for jar in read_lock().jars(converter.sets) if jar.gav.split(":")[1] in converter.reads]


def compiler_jars() -> list[Path]:
    """Those of the Java compiler that the pyspark wheel brings. Raises StackError: it does not."""
    folder = pyspark_folder()
    jars = [jar for name in _ITS_JARS for jar in sorted(folder.glob(f"{name}-[0-9]*.jar"))]
    if len(jars) != len(_ITS_JARS):
        reason = f"{folder} has no compiler of Java: {[f'{name}-*.jar' for name in _ITS_JARS]}, each once"
        raise StackError("own_converters", reason, install_command())
    return jars


def _note(converter: OwnConverter) -> bytes:
    made_of = [*map(sha256, (*converter.sources, *compiler_jars())), *(jar.sha256 for jar in jars_to_read(converter))]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest().encode()


def _note_of(file: Path) -> bytes | None:
    try:
        with zipfile.ZipFile(file) as jar:
            return jar.comment
    except (FileNotFoundError, zipfile.BadZipFile):
        return None


def main() -> None:
    """Fetch what the compiler reads, compile, and write the jar of that name."""
    by_name = {converter.jar: converter for converter in OWN_CONVERTERS}
    if len(sys.argv) != 2 or Path(sys.argv[1]).name not in by_name:
        sys.exit(f"usage: python -m cdc_assets.stack.own_converters {' | '.join(by_name)}")
    converter = by_name[Path(sys.argv[1]).name]
    try:
        download(jars_to_read(converter), cache_folder(), repository=repository(read_lock().repository))
        Path(sys.argv[1]).write_bytes(build_jar(converter))
    except StackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
