"""One client.properties for both kinds of Kafka clients: what each is told, what is refused, and where its secrets never are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from cdc_assets.capture.connectors.database_connectors import mariadb_config
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.kafka_client import ClientMaker
from cdc_assets.clients.platform import Platform
from cdc_assets.registry.errors import ServiceError
from cdc_assets.stack.component import Site
from cdc_assets.stack.component_plan import choose
from cdc_assets.stack.components.connect_worker import ConnectWorker
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.declared_mariadb import GOOD, loaded
from spark.errors import JobRefusedError
from spark.events.kafka_login import jaas, librdkafka, properties, read_login
from spark.events.kafka_source import read_options, refusals_named
from spark.specs import BronzeSpec, TopicRange

CANARY = "canary-7f3a"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass
class Folder:
    path: Path

    def put(self, name: str, text: str, mode: int = 0o600) -> Path:
        file = self.path / name
        file.write_text(text)
        file.chmod(mode)
        return file

    def login(self, **lines: str) -> str:
        return str(self.put("client.properties", "".join(f"{k.replace('__', '.')}={v}\n" for k, v in lines.items())))

    def scram(self, **lines: str) -> str:
        login = f'{SCRAM} required username="alice" password="{CANARY}";'
        told = {"security__protocol": "SASL_SSL", "sasl__mechanism": "SCRAM-SHA-512", "sasl__jaas__config": login}
        return self.login(**{**told, **lines})

    def tls(self, **lines: str) -> str:
        ca, user = self.put("ca.crt", CERTIFICATE, 0o644), self.put("user.pem", CERTIFICATE + KEY)
        trusted = {"ssl__truststore__type": "PEM", "ssl__truststore__location": str(ca)}
        own = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(user)}
        return self.login(**{"security__protocol": "SSL", **trusted, **own, **lines})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_password_for_librdkafka_and_a_reference_for_java(folder: Folder) -> None:
    path = folder.scram(ssl__endpoint__identification__algorithm="")
    login = read_login(path)
    assert librdkafka(login) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": CANARY,
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert login.spark_options() == {
        "kafka.config.providers": "file,dir",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka.config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "kafka.security.protocol": f"${{file:{path}:security.protocol}}",
        "kafka.sasl.mechanism": f"${{file:{path}:sasl.mechanism}}",
        "kafka.sasl.jaas.config": f"${{file:{path}:sasl.jaas.config}}",
        "kafka.ssl.endpoint.identification.algorithm": f"${{file:{path}:ssl.endpoint.identification.algorithm}}",
    }


def test_certificates_for_both(folder: Folder) -> None:
    login = read_login(folder.tls(ssl__key__password=CANARY))
    pem = str(folder.path / "user.pem")
    assert librdkafka(login) == {
        "security.protocol": "SSL",
        "ssl.ca.location": str(folder.path / "ca.crt"),
        "ssl.certificate.location": pem,
        "ssl.key.location": pem,
        "ssl.key.password": CANARY,
    }
    assert login.references("producer.")["producer.ssl.keystore.location"] == f"${{file:{login.path}:ssl.keystore.location}}"


def test_a_mounted_secret_is_named_file_by_file(folder: Folder) -> None:
    for name, text in {"ca.crt": CERTIFICATE, "user.crt": CERTIFICATE, "user.key": KEY}.items():
        folder.put(name, text, 0o440)
    place = {name: f"${{dir:{folder.path}:{name}}}" for name in ("ca.crt", "user.crt", "user.key")}
    path = folder.login(
        security__protocol="SSL", ssl__truststore__type="PEM", ssl__truststore__certificates=place["ca.crt"],
        ssl__keystore__type="PEM", ssl__keystore__certificate__chain=place["user.crt"], ssl__keystore__key=place["user.key"],
    )  # fmt: skip
    Path(path).chmod(0o644)  # it holds no secret
    login = read_login(path)
    told = {key: str(folder.path / name) for key, name in (("ca", "ca.crt"), ("certificate", "user.crt"), ("key", "user.key"))}
    assert librdkafka(login) == {"security.protocol": "SSL", **{f"ssl.{key}.location": file for key, file in told.items()}}
    assert login.references()["ssl.keystore.key"] == place["user.key"]
    assert login.places == [path, *[str(folder.path)] * 3]
    folder.put("sasl.jaas.config", f'{SCRAM} required username="alice" password="{CANARY}";\n')
    scram = read_login(folder.scram(sasl__jaas__config=f"${{dir:{folder.path}:sasl.jaas.config}}"))
    assert librdkafka(scram)["sasl.password"] == CANARY


def test_certificates_as_text(folder: Folder) -> None:
    lines = {"ssl__keystore__type": "PEM", "ssl__keystore__certificate__chain": CERTIFICATE, "ssl__keystore__key": KEY}
    escaped = {key: value.replace("\n", "\\n") for key, value in lines.items()}
    told = librdkafka(read_login(folder.login(security__protocol="SSL", **escaped)))
    assert told == {"security.protocol": "SSL", "ssl.certificate.pem": CERTIFICATE.strip(), "ssl.key.pem": KEY.strip()}


def test_java_s_forms_are_read_as_java_reads_them() -> None:
    text = (
        '# c\n  ! c\n\na = 1 \nb:2\nc 3\nd\\=e=4\\\n   5\\\\\nf=\\u00e9\\t.\ng\nh=a\\\n  #b\n'
        'j=x required \\\n  username="al" \\\n  password="p\\\\"q";\n'
    )  # fmt: skip
    found = {"a": "1", "b": "2", "c": "3", "d=e": "45\\", "f": "é\t.", "g": "", "h": "a#b"}
    assert properties(text) == {**found, "j": 'x required username="al" password="p\\"q";'}
    read = jaas('  a.B  required username="al" password="p\\"q;\\\\" ; ')
    assert read is not None
    assert (read.module, read.options) == ("a.B", {"username": "al", "password": 'p"q;\\'})
    assert jaas('a.B required username=al password="p";') is None
    assert jaas('a.B required username="al"') is None


# What is wrong, and what is said of it: the file, the key, the next step.
WRONG = {
    "an unknown key": ({"ssl.truststore.password": "x"}, r"ssl\.truststore\.password: not known here; .*Take that out"),
    "no protocol": ({"security.protocol": None}, r"security\.protocol is missing; it is one of PLAINTEXT, SSL"),
    "another protocol": ({"security.protocol": "sasl"}, r"security\.protocol is 'sasl'"),
    "another mechanism": ({"sasl.mechanism": "GSSAPI"}, r"sasl\.mechanism is 'GSSAPI'; our clients know PLAIN, SCRAM"),
    "no login": ({"sasl.jaas.config": None}, r'sasl\.jaas\.config is missing: .*ScramLoginModule required username="…"'),
    "no quotes": ({"sasl.jaas.config": f"{SCRAM} required username=a password={CANARY};"}, "is not as SCRAM-SHA-512 has it"),
    "another module": ({"sasl.mechanism": "PLAIN"}, "is not as PLAIN has it: .*PlainLoginModule"),
    "an idle key": ({"security.protocol": "SSL"}, r"sasl\.jaas\.config, sasl\.mechanism would do nothing with .*=SSL"),
    "a JKS": ({"ssl.truststore.location": "/x.jks", "ssl.truststore.type": "JKS"}, r"needs ssl\.truststore\.type=PEM, the only"),
    "a file that is not there": ({"ssl.truststore.location": "/none/ca", "ssl.truststore.type": "PEM"}, "/none/ca: No such"),
    "a lonely certificate": (
        {"ssl.keystore.certificate.chain": "x", "ssl.keystore.type": "PEM"}, r"chain and ssl\.keystore\.key come together"
    ),
    "an idle type": ({"ssl.keystore.type": "PEM"}, r"would do nothing without ssl\.keystore\.location"),
    "an idle password": ({"ssl.key.password": CANARY}, r"would do nothing without ssl\.keystore\.location"),
    "hosts": ({"ssl.endpoint.identification.algorithm": "no"}, "is 'no'; it is https, or empty"),
    "another reference": ({"sasl.jaas.config": "${env:LOGIN}"}, r"sasl\.jaas\.config: a reference is \$\{dir:/FOLDER:FILE\}"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_says_where_and_what_next(folder: Folder, what: str) -> None:
    changes, said = WRONG[what]
    lines = properties(Path(folder.scram()).read_text()) | changes
    path = folder.login(**{key: value for key, value in sorted(lines.items()) if value is not None})
    with pytest.raises(JobRefusedError, match=said) as error:
        read_login(path)
    assert path in str(error.value)
    assert CANARY not in str(error.value)


def test_a_secret_that_others_may_read_is_refused(folder: Folder) -> None:
    path = folder.scram()
    Path(path).chmod(0o644)
    with pytest.raises(JobRefusedError, match=rf"{path} holds a secret and its mode is 0644: .*; chmod o= {path}"):
        read_login(path)
    Path(path).chmod(0o640)
    read_login(path)
    tls = folder.tls()
    (folder.path / "user.pem").chmod(0o604)
    with pytest.raises(JobRefusedError, match=r"ssl\.keystore\.location .*user\.pem .*mode is 0604"):
        read_login(tls)


def test_a_key_of_another_form_and_a_relative_path_are_refused(folder: Folder) -> None:
    path = folder.tls()
    folder.put("user.pem", CERTIFICATE + KEY.replace("PRIVATE", "RSA PRIVATE"))
    with pytest.raises(
        JobRefusedError, match=r"ssl\.keystore\.location holds no private key in PKCS#8 .*openssl pkcs8 -topk8"
    ) as error:
        read_login(path)
    assert CANARY not in str(error.value)
    for odd in ("client.properties", "/a:b"):
        with pytest.raises(JobRefusedError, match="absolute path"):
            read_login(odd)


def test_the_secret_is_in_no_spec_config_option_or_error(folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = folder.scram(ssl__endpoint__identification__algorithm="https")
    monkeypatch.setenv("CDC_CORE_LOGIN", path)
    monkeypatch.setenv("CDC_LAKE_LOGIN", path)
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/secrets")
    platform = Platform()
    assert platform.core_kafka("core").login == platform.lake_kafka().login == path
    topic = TopicRange("t", "t", "id", 0, {0: (0, 1)})
    spec = BronzeSpec("/lake", "127.0.0.1:1", (topic,), "one", login=platform.lake_kafka().login)
    assert BronzeSpec.from_json(spec.to_json()) == spec
    site = Site(Home(tmp_path), {"core-connect": 2, "lake-connect": 3}, external={
        "CDC_CORE_BOOTSTRAP": "k:1", "CDC_LAKE_BOOTSTRAP": "k:1", "CDC_CORE_LOGIN": path, "CDC_LAKE_LOGIN": path})  # fmt: skip
    worker = ConnectWorker(site, "lake")._properties()
    source = loaded(tmp_path, GOOD)
    capture, mirror = mariadb_config(source), mirror_config(source)
    assert capture["schema.history.internal.producer.sasl.jaas.config"] == f"${{file:{path}:sasl.jaas.config}}"
    assert capture["schema.history.internal.consumer.security.protocol"] == f"${{file:{path}:security.protocol}}"
    assert {"source.cluster.sasl.jaas.config", "target.cluster.sasl.jaas.config"} <= set(mirror)
    assert worker["config.providers.file.param.allowed.paths"] == f"{site.home.secrets},{path}"
    assert worker["admin.sasl.jaas.config"] == f"${{file:{path}:sasl.jaas.config}}"
    with pytest.raises(ServiceError) as error:
        KafkaCluster("127.0.0.1:1", login=path, timeout=0.5).states(["t"])
    everything = [spec.to_json(), json.dumps([capture, mirror, worker, read_options(spec, [topic])]), str(error.value)]
    everything += [
        repr(each) for each in (platform, read_login(path), spec, platform.lake_kafka(), ClientMaker("k:1", path).__dict__)
    ]
    assert not [text for text in everything if CANARY in text]


def test_a_spec_holds_no_secret() -> None:
    topic = TopicRange("t", "t", "id", 0, {0: (0, 1)})
    spec = BronzeSpec("/lake", "k:1", (topic,), "one", {"kafka.sasl.jaas.config": CANARY})
    with pytest.raises(JobRefusedError, match=r"\['kafka\.sasl\.jaas\.config'\] hold a secret: .* as the spec's login") as error:
        read_options(spec, [topic])
    assert CANARY not in str(error.value)


def test_a_job_that_is_not_let_in_says_which_file() -> None:
    told = "[X] Job aborted\norg.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed\n\tat a.b"
    with pytest.raises(
        JobRefusedError, match=r"^Kafka at k:1 does not let Spark in by /f: SaslAuth.* failed; correct that file.*again$"
    ):
        with refusals_named(("k:1", "/f"), ("", "")):
            raise PySparkException(told)
    with pytest.raises(PySparkException, match="division by zero"), refusals_named(("k:1", "")):
        raise PySparkException("division by zero")


def test_a_broken_file_is_an_error_of_the_cluster(folder: Folder) -> None:
    path = folder.login(security__protocol="SSL", bogus="1")
    with pytest.raises(ServiceError, match=rf"Kafka at k:1: {path}: bogus: not known .*; then \./cdc preflight"):
        KafkaCluster("k:1", login=path).cluster_id()


def test_the_embedded_kafka_has_logins_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"CDC_LAKE_LOGIN is for a Kafka of yours"):
        choose(Home(tmp_path).create(), environment={"CDC_LAKE_LOGIN": "/client.properties"})


def test_the_workers_login_is_in_no_file_that_a_connector_may_refer_to(tmp_path: Path) -> None:
    ports = dict.fromkeys(("core-kafka", "lake-kafka", "core-connect", "lake-connect"), 1)
    site = Site(Home(tmp_path).create(), ports, logins=True)
    worker = ConnectWorker(site, "lake")._properties()
    own, passwords = site.login("core"), {user: site.home.private(f"kafka_{user}_password") for user in ("connect", "cdc")}
    assert own
    assert own == site.login("lake")
    login = read_login(own).jaas()
    assert login
    assert login.options == {"username": "cdc", "password": passwords["cdc"]}
    for client in ("", "producer.", "consumer.", "admin."):
        assert f'"{passwords["connect"]}"' in worker[f"{client}sasl.jaas.config"]
    for place in worker["config.providers.file.param.allowed.paths"].split(","):
        files = [Path(place)] if Path(place).is_file() else [file for file in Path(place).rglob("*") if file.is_file()]
        assert not [file for file in files if passwords["connect"] in file.read_text()]
    foreign = Site(site.home, ports, external={"CDC_CORE_BOOTSTRAP": "k:1"}, logins=True)
    assert (foreign.login("core"), foreign.login("lake")) == (None, own)
