"""Apicurio, a real schema registry with Confluent's REST API, and its converter for Connect, for recording real Avro.

https://www.apicur.io/registry/docs/apicurio-registry/2.6.x/getting-started/assembly-configuring-kafka-client-serdes.html
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from typing_extensions import override

from cdc_assets.stack.runtimes import java
from cdc_assets_tests.support.lake.jvm import free_port, locked_jars, running, until
from cdc_assets_tests.support.servers.secrets_worker import SecretsWorker

CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"
PLUGIN = "apicurio-converter"


@dataclass(frozen=True)
class Apicurio:
    address: str

    @property
    def url(self) -> str:
        """Where it answers as Confluent's registry does."""
        return f"{self.address}/apis/ccompat/v7"

    def converters(self) -> dict[str, str]:
        """For a connector: keys and values in Avro behind a zero byte and the schema's id in four."""
        settings = {
            "converter": CONVERTER,
            "converter.apicurio.registry.url": f"{self.address}/apis/registry/v2",
            "converter.apicurio.registry.auto-register": "true",
            "converter.apicurio.registry.as-confluent": "true",
            "converter.apicurio.registry.use-id": "contentId",
            "converter.apicurio.registry.headers.enabled": "false",
        }
        return {f"{part}.{name}": value for part in ("key", "value") for name, value in settings.items()}


class WorkerWithAvro(SecretsWorker):
    """A worker that has the converter.

    It resolves `${secrets:kafka/cdc-secrets:…}` as Strimzi's provider does, from a folder. Its machine's clock is not UTC's,
    as few people's are: Java reads times of day by it where it is not told otherwise.
    """

    @override
    def environment(self) -> dict[str, str]:
        return {**super().environment(), "TZ": "America/New_York"}

    @property
    @override
    def java(self) -> Path:
        """The stack's own, as in a stack without MySQL. Of MySQL's plugin it only asks whether configs are valid."""
        return java()

    @override
    def prepare(self) -> None:
        super().prepare()
        self.link("kafka/cdc-secrets", self.site.home.secrets)


@contextmanager
def apicurio(folder: Path) -> Iterator[Apicurio]:
    """A registry that keeps everything in memory."""
    folder.mkdir(parents=True, exist_ok=True)
    (archive,) = locked_jars("apicurio")
    with tarfile.open(archive) as packed:
        # Python knows filters from 3.10.12, 3.11.4 and 3.12 on; Debian 12's is older. The archive is pinned by its hash.
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (jar,) = folder.glob("*-runner.jar")
    found, log = Apicurio(f"http://127.0.0.1:{free_port()}"), folder / "apicurio.log"
    bound = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={found.address.rpartition(':')[2]}"]
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *bound]
    with running([str(java()), *options, "-jar", str(jar)], log=log) as process:
        until(lambda: _answers(found), process=process, log=log)
        yield found


def _answers(registry: Apicurio) -> bool:
    try:
        return httpx.get(f"{registry.url}/subjects", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False
