"""What Apicurio's converter lacks on a Connect worker: that a NULL stays NULL, and that a worker finds it among its plugins.

One small jar beside Apicurio's own. The embedded worker gets it by itself; for a worker of one's own:
`python -m cdc_assets.stack.avro_converter null-keeping-avro-converter.jar`. Its class is `converter/`'s Java file, compiled by
`javac --release 17 -g:none` (docs/adr/0101-own-connectors-in-avro.md); a test compiles it again.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

PLUGIN = "apicurio-converter"
"""The set of jars that it belongs to (stack.jars.sets)."""
CLASS = "cdc_assets.NullKeepingAvroConverter"
ITS_BASE = "io.apicurio.registry.utils.converter.AvroConverter"
_SERVICES = "META-INF/services/org.apache.kafka.connect.storage.Converter"
# The same bytes at each start.
_TIME = (1980, 1, 1, 0, 0, 0)


def class_file() -> Path:
    """The compiled class, in the package."""
    return Path(__file__).with_name("converter") / f"{CLASS.rpartition('.')[2]}.class"


def write_jar(file: Path) -> None:
    """Our class, and the names of both converters: Apicurio's jar does not say that it has one (plugin.discovery)."""
    with zipfile.ZipFile(file, "w") as jar:
        jar.writestr(zipfile.ZipInfo(_SERVICES, _TIME), f"{CLASS}\n{ITS_BASE}\n")
        jar.writestr(zipfile.ZipInfo(f"{CLASS.replace('.', '/')}.class", _TIME), class_file().read_bytes())


if __name__ == "__main__":
    write_jar(Path(sys.argv[1]))
