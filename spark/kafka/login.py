"""How our clients log in to a Kafka cluster: a `client.properties` as Kafka's own tools take it, read where a client is made.

    the file's path ──▶ specs, settings, connectors' configs     no value of it ever leaves the file
         ├─▶ Java (Spark, Connect): `${file:PATH:KEY}`, which Kafka's client resolves in its own process (KIP-421)
         └─▶ librdkafka: read and translated (cdc_assets.resources.kafka_client)

Certificates and keys are PEM, the one form that both kinds of clients read (KIP-651). A value may be a file of a folder,
`${dir:FOLDER:FILE}`, as Kubernetes mounts a Secret. Keys are allow-listed: one that a client ignored would be a wrong belief.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark.errors import KafkaLoginError
from spark.kafka.java_properties import Jaas, jaas, properties

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_KAFKA = "org.apache.kafka.common.security"
_SCRAM = f"{_KAFKA}.scram.ScramLoginModule"
MODULES = {"PLAIN": f"{_KAFKA}.plain.PlainLoginModule", "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
TRUSTED = ("ssl.truststore.location", "ssl.truststore.certificates")
KEY_FILE, CERTIFICATE, PRIVATE_KEY, KEY_PASSWORD = (
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
)
OWN = (KEY_FILE, CERTIFICATE, PRIVATE_KEY)
HOSTS = "ssl.endpoint.identification.algorithm"
KEYS = ("security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.truststore.type", *TRUSTED, "ssl.keystore.type", *OWN,
        KEY_PASSWORD, HOSTS)  # fmt: skip
SECRETS = ("sasl.jaas.config", PRIVATE_KEY, KEY_PASSWORD)
_FOLDER_FILE = re.compile(r"\$\{dir:(/[^:{}]+):([^:{}/]+)\}")
_PROVIDERS = {
    "config.providers": "file,dir",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}


@dataclass(frozen=True)
class KafkaLogin:
    """What one file holds; `values` by Java's keys."""

    path: str
    values: Mapping[str, str] = field(repr=False)

    def references(self, *prefixes: str) -> dict[str, str]:
        """For Java clients whose process has the providers `file` and `dir`, and files at these places; once for each prefix."""
        return {
            prefix + key: value if _FOLDER_FILE.fullmatch(value) else f"${{file:{self.path}:{key}}}"
            for prefix in prefixes or ("",)
            for key, value in self.values.items()
        }

    def spark_options(self) -> dict[str, str]:
        """For Spark's Kafka source: the plan holds references only, which driver and executors resolve."""
        return {**{f"kafka.{key}": value for key, value in _PROVIDERS.items()}, **self.references("kafka.")}

    @property
    def places(self) -> list[str]:
        """What the references read: this file, and folders."""
        return [self.path, *(str(Path(file).parent) for key in self.values if (file := self.folder_file(key)))]

    def folder_file(self, key: str) -> str | None:
        """The file that a `${dir:…}` refers to."""
        return file_of_reference(self.values.get(key, ""))

    def text(self, key: str) -> str:
        """A value, or what the file holds that it refers to."""
        file = self.folder_file(key)
        return _text(self.path, Path(file), key).strip() if file else self.values[key]

    def jaas(self) -> Jaas | None:
        """User and password, where the protocol is SASL."""
        if "sasl.jaas.config" not in self.values:
            return None
        return _jaas(self.path, self.text("sasl.jaas.config"), self.values["sasl.mechanism"])


def read_login(path: str) -> KafkaLogin:
    """Read and look at everything that can be looked at without the broker.

    Raises:
        KafkaLoginError: with the file, the key, and what to do; never with a value that may be a secret.
    """
    if not path.startswith("/") or re.search(r"[:{}]", path):
        raise KafkaLoginError(f"{path!r}: a client.properties is named by an absolute path without ':', '{{' or '}}'")
    values = properties(_text(path, Path(path)))
    for complaint in _complaints(values):
        raise KafkaLoginError(f"{path}: {complaint}")
    if any(key in values and not file_of_reference(values[key]) for key in SECRETS):
        _refuse_readable(path, Path(path))
    for key in (*TRUSTED, *OWN, *SECRETS):
        file = file_of_reference(values.get(key, "")) or (values.get(key) if key.endswith(".location") else None)
        if file is None:
            continue
        text = _text(path, Path(file), key)
        if key in (KEY_FILE, *SECRETS):
            _refuse_readable(path, Path(file), key)
        _refuse_no_pem(path, key, text)
    for key in (CERTIFICATE, PRIVATE_KEY, "ssl.truststore.certificates"):
        if key in values and not file_of_reference(values[key]):
            _refuse_no_pem(path, key, values[key])
    login = KafkaLogin(path, values)
    login.jaas()
    return login


def file_of_reference(value: str) -> str | None:
    """The file of a `${dir:FOLDER:FILE}`; None of anything else."""
    found = _FOLDER_FILE.fullmatch(value)
    return f"{found[1].rstrip('/')}/{found[2]}" if found else None


def _complaints(values: Mapping[str, str]) -> Iterator[str]:
    unknown = sorted(set(values) - set(KEYS))
    if unknown:
        yield f"{', '.join(unknown)}: not known here; a login has {', '.join(KEYS)}. Take that out"
    if odd := [key for key, value in values.items() if "${" in value and not file_of_reference(value)]:
        yield f"{odd[0]}: a reference is ${{dir:/FOLDER:FILE}}, and the whole value"
    protocol = values.get("security.protocol")
    if protocol not in PROTOCOLS:
        given = "is missing" if protocol is None else f"is {protocol!r}"
        yield f"security.protocol {given}; it is one of {', '.join(PROTOCOLS)}"
        return
    sasl, tls = protocol.startswith("SASL"), protocol.endswith("SSL")
    idle = [key for key in values if (key.startswith("sasl.") and not sasl) or (key.startswith("ssl.") and not tls)]
    if idle:
        yield f"{', '.join(idle)} would do nothing with security.protocol={protocol}: take them out, or change the protocol"
    if sasl and values.get("sasl.mechanism") not in MODULES:
        yield f"sasl.mechanism is {values.get('sasl.mechanism', '')!r}; our clients know {', '.join(MODULES)}"
    if sasl and "sasl.jaas.config" not in values:
        yield f"sasl.jaas.config is missing: {_example(values['sasl.mechanism'])}"
    yield from _store_complaints(values)


def _store_complaints(values: Mapping[str, str]) -> Iterator[str]:
    for store, keys in (("ssl.truststore.type", TRUSTED), ("ssl.keystore.type", OWN)):
        given = [key for key in keys if key in values]
        if given and values.get(store) != "PEM":
            yield f"{given[0]} needs {store}=PEM, the only form that librdkafka reads too (openssl pkcs12 turns a PKCS12 into it)"
        if store in values and not given:
            yield f"{store} would do nothing without {keys[0]}"
    if all(key in values for key in TRUSTED):
        yield f"{' and '.join(TRUSTED)}: give one of them"
    if KEY_FILE in values and (CERTIFICATE in values or PRIVATE_KEY in values):
        yield f"{KEY_FILE} holds certificate and key: take out {CERTIFICATE} and {PRIVATE_KEY}, or it"
    if (CERTIFICATE in values) != (PRIVATE_KEY in values):
        yield f"{CERTIFICATE} and {PRIVATE_KEY} come together, or certificate and key in one file as {KEY_FILE}"
    if KEY_PASSWORD in values and not any(key in values for key in OWN):
        yield f"{KEY_PASSWORD} would do nothing without {KEY_FILE}"
    if values.get(HOSTS, "https") not in ("", "https"):
        yield f"{HOSTS} is {values[HOSTS]!r}; it is https, or empty for brokers whose certificates do not name them"


def _text(path: str, file: Path, key: str = "") -> str:
    """A file of the login."""
    place = f"{path}: {key} {file}" if key else path if path == str(file) else f"{path}: {file}"
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        mend = "put it there" if isinstance(error, FileNotFoundError) else f"chown or chmod {file} so that this user may read it"
        raise KafkaLoginError(f"{place}: {error.strerror}; {mend}") from None
    except UnicodeDecodeError:
        raise KafkaLoginError(f"{place}: is no text; PEM and properties are") from None


def _refuse_readable(path: str, file: Path, key: str = "") -> None:
    """The group may read: Kubernetes gives a Secret's files to a group (fsGroup)."""
    mode = file.stat().st_mode & 0o777
    if mode & 0o007:
        place = f"{path}: {key} {file}" if key else str(file)
        raise KafkaLoginError(f"{place} holds a secret and its mode is {mode:04o}: others may use it; chmod o= {file}")


def _refuse_no_pem(path: str, key: str, text: str) -> None:
    missing = []
    if key in (*TRUSTED, KEY_FILE, CERTIFICATE) and "-----BEGIN CERTIFICATE-----" not in text:
        missing.append("a certificate in PEM (-----BEGIN CERTIFICATE-----)")
    if key in (KEY_FILE, PRIVATE_KEY) and not re.search("-----BEGIN (ENCRYPTED )?PRIVATE KEY-----", text):
        missing.append("a private key in PKCS#8 (-----BEGIN PRIVATE KEY-----; openssl pkcs8 -topk8 makes one of another)")
    if missing:
        raise KafkaLoginError(f"{path}: {key} holds no {', and no '.join(part.removeprefix('a ') for part in missing)}")


def _jaas(path: str, text: str, mechanism: str) -> Jaas:
    found, module = jaas(text.strip()), MODULES[mechanism]
    if found is None or found.module != module or set(found.options) != {"username", "password"}:
        raise KafkaLoginError(f"{path}: sasl.jaas.config is not as {mechanism} has it: {_example(mechanism)}")
    return found


def _example(mechanism: str) -> str:
    return f'{MODULES[mechanism]} required username="…" password="…";'
