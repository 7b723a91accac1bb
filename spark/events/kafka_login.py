"""How our clients log in to a Kafka cluster: a `client.properties` as Kafka's own tools take it, read where a client is made.

| the file's path ──▶ specs, settings, connectors' configs     no value of it ever leaves the file
|      ├─▶ Java (Spark, Connect): `${file:PATH:KEY}`, which Kafka's client resolves in its own process (KIP-421)
|      └─▶ librdkafka: read and translated (`librdkafka` below)

Certificates and keys are PEM, the one form that both kinds of clients read (KIP-651). A value may be a file of a folder,
`${dir:FOLDER:FILE}`, as Kubernetes mounts a Secret. Keys are allow-listed: one that a client ignored would be a wrong belief.

The file and the line of a JAAS login are read as Java reads them:
https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
JaasConfig of Kafka's clients (3.9): a StreamTokenizer, in which a backslash within quotes escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark.errors import JobRefusedError

_BLANK = " \t\f"
_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_QUOTED = r""""(?:\\[^\w]|[^"\\])*"|'(?:\\[^\w]|[^'\\])*'"""
_JAAS = re.compile(rf"\s*([\w.$]+)\s+required((?:\s+\w+\s*=\s*(?:{_QUOTED}))*)\s*;\s*")
_OPTION = re.compile(rf"(\w+)\s*=\s*({_QUOTED})")


@dataclass(frozen=True)
class Jaas:
    """One login module and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def properties(text: str) -> dict[str, str]:
    """Keys and values, without blanks around the values (Kafka takes them away too); the last of a key counts."""
    pairs = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            pairs[_plain(pair[1])] = _plain(pair[2]).strip()
    return pairs


def jaas(text: str) -> Jaas | None:
    """The only login of a line; None where it is not one, or its values are not in quotes."""
    match = _JAAS.fullmatch(text)
    if match is None:
        return None
    return Jaas(match[1], {name: re.sub(r"\\(.)", r"\1", value[1:-1]) for name, value in _OPTION.findall(match[2])})


def _logical_lines(text: str) -> Iterator[str]:
    """Lines that end in an odd number of backslashes go on in the next; comments and empty lines are left out."""
    pending: str | None = None
    for line in re.split(r"\r\n|\n|\r", text):
        stripped = line.lstrip(_BLANK)
        if pending is None and (not stripped or stripped[0] in "#!"):
            continue
        whole = (pending or "") + stripped
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            pending = whole[:-1]
            continue
        pending = None
        yield whole
    if pending:
        yield pending


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _LETTERS.get(m[1], m[1]), text)


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
        JobRefusedError: with the file, the key, and what to do; never with a value that may be a secret.
    """
    if not path.startswith("/") or re.search(r"[:{}]", path):
        raise JobRefusedError(f"{path!r}: a client.properties is named by an absolute path without ':', '{{' or '}}'")
    values = properties(_text(path, Path(path)))
    for complaint in _complaints(values):
        raise JobRefusedError(f"{path}: {complaint}")
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
    reference = _FOLDER_FILE.fullmatch(value)
    return f"{reference[1].rstrip('/')}/{reference[2]}" if reference else None


def _complaints(values: Mapping[str, str]) -> Iterator[str]:
    unknown = sorted(set(values) - set(KEYS))
    if unknown:
        yield f"{', '.join(unknown)}: not known here; a login has {', '.join(KEYS)}. Take that out"
    if odd := [key for key, value in values.items() if "${" in value and not file_of_reference(value)]:
        yield f"{odd[0]}: a reference is ${{dir:/FOLDER:FILE}}, and the whole value"
    protocol = values.get("security.protocol")
    if protocol not in PROTOCOLS:
        complaint = "is missing" if protocol is None else f"is {protocol!r}"
        yield f"security.protocol {complaint}; it is one of {', '.join(PROTOCOLS)}"
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
        there = [key for key in keys if key in values]
        if there and values.get(store) != "PEM":
            yield f"{there[0]} needs {store}=PEM, the only form that librdkafka reads too (openssl pkcs12 turns a PKCS12 into it)"
        if store in values and not there:
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
    described = f"{path}: {key} {file}" if key else path if path == str(file) else f"{path}: {file}"
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        mend = "put it there" if isinstance(error, FileNotFoundError) else f"chown or chmod {file} so that this user may read it"
        raise JobRefusedError(f"{described}: {error.strerror}; {mend}") from None
    except UnicodeDecodeError:
        raise JobRefusedError(f"{described}: is no text; PEM and properties are") from None


def _refuse_readable(path: str, file: Path, key: str = "") -> None:
    """The group may read: Kubernetes gives a Secret's files to a group (fsGroup)."""
    mode = file.stat().st_mode & 0o777
    if mode & 0o007:
        described = f"{path}: {key} {file}" if key else str(file)
        raise JobRefusedError(f"{described} holds a secret and its mode is {mode:04o}: others may use it; chmod o= {file}")


def _refuse_no_pem(path: str, key: str, text: str) -> None:
    missing = []
    if key in (*TRUSTED, KEY_FILE, CERTIFICATE) and "-----BEGIN CERTIFICATE-----" not in text:
        missing.append("a certificate in PEM (-----BEGIN CERTIFICATE-----)")
    if key in (KEY_FILE, PRIVATE_KEY) and not re.search("-----BEGIN (ENCRYPTED )?PRIVATE KEY-----", text):
        missing.append("a private key in PKCS#8 (-----BEGIN PRIVATE KEY-----; openssl pkcs8 -topk8 makes one of another)")
    if missing:
        raise JobRefusedError(f"{path}: {key} holds no {', and no '.join(item.removeprefix('a ') for item in missing)}")


def _jaas(path: str, text: str, mechanism: str) -> Jaas:
    login, module = jaas(text.strip()), MODULES[mechanism]
    if login is None or login.module != module or set(login.options) != {"username", "password"}:
        raise JobRefusedError(f"{path}: sasl.jaas.config is not as {mechanism} has it: {_example(mechanism)}")
    return login


def _example(mechanism: str) -> str:
    return f'{MODULES[mechanism]} required username="…" password="…";'


# Java's key: librdkafka's as a file, and as text. https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md
_PEM = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.location", "ssl.ca.pem"),
    KEY_FILE: ("ssl.certificate.location", "ssl.key.location"),
    CERTIFICATE: ("ssl.certificate.location", "ssl.certificate.pem"),
    PRIVATE_KEY: ("ssl.key.location", "ssl.key.pem"),
}


def librdkafka(login: KafkaLogin) -> dict[str, str]:
    """The login as settings: the one place where a password is in our memory."""
    settings = {"security.protocol": login.values["security.protocol"]}
    if (user := login.jaas()) is not None:
        settings |= {"sasl.mechanism": login.values["sasl.mechanism"]}
        settings |= {"sasl.username": user.options["username"], "sasl.password": user.options["password"]}
    for key, (file_key, *others) in _PEM.items():
        if key not in login.values:
            continue
        file = login.folder_file(key)
        if key.endswith(".location") or file:
            settings |= dict.fromkeys(
                (file_key, *(other for other in others if other.endswith(".location"))), file or login.values[key]
            )
        else:
            settings |= {others[0]: login.values[key]}
    if KEY_PASSWORD in login.values:
        settings[KEY_PASSWORD] = login.text(KEY_PASSWORD)
    if HOSTS in login.values:
        settings[HOSTS] = login.values[HOSTS] or "none"
    return settings
