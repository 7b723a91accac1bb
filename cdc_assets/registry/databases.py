"""What stands below `database:`: where a source's server is, and how the connection to it is encrypted; a model for each kind.

Hosts and names are checked, since Debezium puts both into a JDBC URL as they are
(https://jdbc.postgresql.org/documentation/use/#connecting-to-the-database).
Where the file says nothing of TLS, an address of this machine is asked as it is: nothing leaves the machine, and databases
there have no certificate. The certificate of any other is verified, its host's name too (docs/adr/archive/0065).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cdc_assets.registry.field_types import Declared
from cdc_assets.registry.references import EnvRef, SecretRef


def _without(pattern: str, why: str) -> AfterValidator:
    def check(text: str) -> str:
        if match := re.search(pattern, text):
            raise ValueError(f"it is {why.format(match[0])}, got {text!r}")
        return text

    return AfterValidator(check)


Host = Annotated[str, _without(r"\A\Z|[^A-Za-z0-9._:,\[\]-]", "the name or the address of a host and nothing else")]
"""A name or an address of a host, or several."""
_BEGINS_ANOTHER_PART = _without(
    r"[/?&;=#%\\\x00-\x1f\x7f]", "the name of a database, and {!r} begins another part of its address"
)
DbName = Annotated[str, Field(min_length=1), _BEGINS_ANOTHER_PART]
AbsoluteFile = Annotated[str, Field(pattern=r"^/[^\n]+$")]


class DatabaseKind(Declared):
    """Where a source database is. What its kind can do is in the table of kinds (cdc_assets.registry.kinds)."""

    ADDRESS: ClassVar[tuple[str, ...]] = ("host", "port")
    """The keys that say where it is, in order."""

    kind: str

    def key_refusal(self, keys: tuple[str, ...]) -> str:
        """Why a table's rows cannot be known by these columns; empty where they can."""
        return ""

    def name_refusal(self, name: str) -> str:
        """Why the server or Debezium's own SQL cannot name a table or schema called so; empty where they can."""
        return ""

    @property
    def tells_snapshots(self) -> bool:
        """Whether the server may tell which place of its log a snapshot sees, where its kind can."""
        return True

    @property
    def topic_scope(self) -> tuple[str, ...]:
        """What the connector's topics have before schema and table."""
        return ()

    @property
    def signals_take_patterns(self) -> bool:
        """Whether a signal names tables by a regular expression, whatever the connector has seen so far."""
        return True

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """What signals have before schema and table."""
        return ()


_OF_TLS = re.compile(r"\b(ssl|tls|certificate)\b|SSLError", re.IGNORECASE)


def is_here(host: str) -> bool:
    """Whether that is an address of the loopback: 127.0.0.0/8, ::1, or localhost."""
    name = host.strip().strip("[]").rstrip(".").lower()
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


class Encrypted(DatabaseKind):
    """`sslmode` is the connector's own word for it. `sslrootcert` is a PEM file with the authorities that may have signed."""

    sslmode: str | None = None
    sslrootcert: AbsoluteFile | None = None

    HERE: ClassVar[str]
    """The mode for an address of this machine."""
    VERIFIED: ClassVar[tuple[str, str]]
    """The modes that verify who has signed, and the host's name as well."""
    UNVERIFIED: ClassVar[tuple[str, str]]
    """Encrypted, whatever the certificate; and not encrypted."""

    def refusals(self) -> Iterator[str]:
        """Authorities that nobody asks."""
        if self.sslrootcert and self.sslmode not in (None, *self.VERIFIED):
            yield f"sslrootcert does nothing with sslmode: {self.sslmode}; take one of them out"

    def mode_at(self, host: str) -> str:
        """As declared, else by the address. Who names an authority wants it asked wherever the server is."""
        return self.sslmode or (self.HERE if is_here(host) and not self.sslrootcert else self.VERIFIED[-1])

    def verifies(self, host: str) -> bool:
        """Whether the server's certificate must be signed by an authority that is known."""
        return self.mode_at(host) in self.VERIFIED

    def explain(self, reason: str, host: str) -> str:
        """What a driver says of a connection that failed; of TLS also the lines that mend it."""
        if not self.verifies(host) or not _OF_TLS.search(reason):
            return reason
        why = f"`sslmode: {self.sslmode}` is declared" if self.sslmode else f"{host} is not an address of this machine"
        if not self.sslmode and is_here(host):
            why = "`sslrootcert` is declared"
        encrypted, plain = self.UNVERIFIED
        return (
            f"{reason.rstrip('.')}. Its certificate is verified, as {why}. Write below `database:` in the source's file "
            f"`sslrootcert: /path/to/ca.pem` (an authority of your own), `sslmode: {encrypted}` (encrypted, whoever answers) "
            f"or `sslmode: {plain}` (not encrypted); docs/how-to/security.md"
        )


class Database(Encrypted):
    """Where the source database is. Host, port and user may be `{env: NAME}`. The password is a secret.

    Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    """

    HERE, VERIFIED, UNVERIFIED = "prefer", ("verify-ca", "verify-full"), ("require", "disable")

    kind: Literal["postgresql"]
    host: Host | EnvRef
    port: int | EnvRef = 5432
    dbname: DbName
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: AbsoluteFile | None = None

    def name_refusal(self, name: str) -> str:
        """Its connector names tables in CREATE PUBLICATION, and takes a name with a quote at an end for one that is quoted.

        The statement is invalid then, and no table of the source is read (io.debezium.relational.TableId.quote, 3.7).
        """
        if name.startswith('"') or name.endswith('"'):
            return "Debezium cannot publish a table or schema whose name begins or ends with a double quote"
        return ""


def _refusals_of_truststore(truststore: str | None, sslrootcert: str | None) -> Iterator[str]:
    """Java reads no PEM there: `truststore` is a keystore on the Connect worker with what `sslrootcert` has."""
    if truststore and not sslrootcert:
        yield "truststore is for the connector alone: give sslrootcert too, the same authorities in PEM"


_LONGEST = 64


class MariaDb(Encrypted):
    """Host, port and user may be `{env: NAME}`. The password is a secret.

    `sslmode: trust` encrypts and believes any certificate. `verify-ca` and `verify-full` do not. The server must write a
    row binlog (docs/reference/mariadb.md). Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    `truststore` has them for the connector, which reads no PEM.
    """

    HERE, VERIFIED, UNVERIFIED = "disable", ("verify-ca", "verify-full"), ("trust", "disable")

    kind: Literal["mariadb"]
    host: Host | EnvRef
    port: int | EnvRef = 3306
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disable", "trust", "verify-ca", "verify-full"] | None = None
    sslrootcert: AbsoluteFile | None = None
    truststore: AbsoluteFile | None = None

    def refusals(self) -> Iterator[str]:
        """Authorities that nobody asks, or that the connector alone would ask."""
        yield from super().refusals()
        yield from _refusals_of_truststore(self.truststore, self.sslrootcert)

    def name_refusal(self, name: str) -> str:
        """What the server itself takes for no name (https://mariadb.com/kb/en/identifier-names/), and what Debezium unquotes.

        It reads a table called `all` with its backticks as one called all, fails, and reads no table of the source (3.5).
        """
        if name.startswith("`") or name.endswith("`"):
            return "Debezium cannot read a table or database whose name begins or ends with a backtick"
        if name != name.rstrip():
            return "MariaDB has no table or database whose name ends in white space"
        if any(char > "\uffff" for char in name):
            return "MariaDB has no table or database with a character beyond U+FFFF in its name"
        if len(name) > _LONGEST:
            return f"MariaDB has no table or database with a name of more than {_LONGEST} characters"
        return ""


class MySql(Encrypted):
    """Host, port and user may be `{env: NAME}`. The password is a secret.

    `snapshot_locking: minimal` holds a global read lock while the schemas are read, so that the snapshot is of one moment.
    Take `none` if that is not allowed and nobody changes a schema meanwhile. `time_zone` is the one in which the server's
    TIMESTAMPs are read when it does not say. Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    `truststore` has them for the connector, which reads no PEM.
    """

    HERE, VERIFIED, UNVERIFIED = "preferred", ("verify_ca", "verify_identity"), ("required", "disabled")

    kind: Literal["mysql"]
    host: Host | EnvRef
    port: int | EnvRef = 3306
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] | None = None
    sslrootcert: AbsoluteFile | None = None
    truststore: AbsoluteFile | None = None
    snapshot_locking: Literal["minimal", "extended", "none"] = "minimal"
    time_zone: str | None = None

    def refusals(self) -> Iterator[str]:
        """Authorities that nobody asks, or that the connector alone would ask."""
        yield from super().refusals()
        yield from _refusals_of_truststore(self.truststore, self.sslrootcert)

    @property
    def tells_snapshots(self) -> bool:
        """It is told under a global read lock."""
        return self.snapshot_locking != "none"


class SqlServer(DatabaseKind):
    """Host, port and user may be `{env: NAME}`. The password is a secret. Experimental: not run against a server.

    With `instance` the server is asked for that instance's port, and `port` is not used.
    `snapshot_isolation: snapshot` reads all tables as of one moment and locks nobody out. It needs
    ALLOW_SNAPSHOT_ISOLATION. `repeatable_read` holds locks on what it has read. `read_only_replica` reads an Always On
    secondary. Changes come from the tables' capture instances: preflight says which are missing.
    """

    kind: Literal["sqlserver"]
    host: Host | EnvRef
    port: int | EnvRef = 1433
    instance: str | None = None
    dbname: DbName
    user: str | EnvRef
    password: SecretRef
    encrypt: bool = True
    trust_server_certificate: bool = False
    snapshot_isolation: Literal["snapshot", "repeatable_read", "read_committed", "exclusive"] = "snapshot"
    read_only_replica: bool = False

    @property
    def topic_scope(self) -> tuple[str, ...]:
        """One connector may read several databases (SqlServerConnectorTask asks for the multi-partition mode, 3.6.1)."""
        return (self.dbname,)

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """Its signals name the database as well."""
        return (self.dbname,)


class Oracle(DatabaseKind):
    """Host, port and user may be `{env: NAME}`. The password is a secret. Experimental: not run against a server.

    `dbname` is the root container's service. `pdb` is the pluggable database that holds the tables (none: no containers).
    `mining: online_catalog` is cheap and does not follow a change of a table's columns. The mode `redo_log_catalog` does,
    and writes the dictionary into the redo log. Set `lobs` to read CLOB, BLOB and XML. They cost much. Debezium has no
    Oracle driver: put ojdbc11.jar beside the plugin.
    """

    kind: Literal["oracle"]
    host: Host | EnvRef
    port: int | EnvRef = 1521
    dbname: DbName
    pdb: str | None = None
    user: str | EnvRef
    password: SecretRef
    mining: Literal["online_catalog", "redo_log_catalog", "hybrid"] = "hybrid"
    lobs: bool = False

    def refusals(self) -> Iterator[str]:
        """LOBs that Debezium would not read."""
        if self.lobs and self.mining == "hybrid":
            yield "lobs: Debezium does not read them with mining: hybrid; choose online_catalog or redo_log_catalog"

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """The database that holds the tables."""
        return (self.pdb or self.dbname,)


class MongoDb(DatabaseKind):
    """Hosts may be `{env: NAME}`, as `host:port,host:port`. The password is a secret and never part of an address.
    Experimental: live on a compatible server (SecantusDB), and not on MongoDB's own.

    `images` is what an update carries. With `full` the document is looked up, and may be newer than the change. With
    `with_pre_image` it also has the document as it was, which deletes need for anything but the key. The collections must
    then have changeStreamPreAndPostImages (preflight).
    """

    ADDRESS = ("hosts",)

    kind: Literal["mongodb"]
    hosts: Host | EnvRef
    replica_set: str | None = None
    user: str | EnvRef
    password: SecretRef
    auth_source: str = Field(default="admin", min_length=1)
    tls: bool | None = None
    images: Literal["full", "with_pre_image"] = "full"

    def key_refusal(self, keys: tuple[str, ...]) -> str:
        """A collection's key is always the same."""
        return "" if keys == ("_id",) else "the key of a MongoDB collection is _id"

    @property
    def signals_take_patterns(self) -> bool:
        """It expands a pattern only to collections that it has met, and takes any other for a name as it is.

        MongoDbIncrementalSnapshotChangeEventSource.expandAndDedupeDataCollectionIds, 3.6.1.
        """
        return False

    def encrypts(self, hosts: str) -> bool:
        """As declared, else unless all of them are addresses of this machine. Certificates are verified then."""
        # An IPv6 address with a port is in brackets.
        names = (re.sub(r"(?<=\]):\d+$|^([^:]*):\d+$", r"\1", host.strip()) for host in hosts.split(","))
        return not all(map(is_here, names)) if self.tls is None else self.tls
