"""How a connection to a source's server is encrypted, and whether its certificate is verified.

Where the source's file says nothing, an address of this machine is asked as it is: nothing leaves the machine, and databases
there have no certificate. The certificate of any other is verified, its host's name too (docs/adr/0065).
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import ClassVar

from pydantic import Field, model_validator

from cdc_assets.registry.declared import DatabaseKind

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
    sslrootcert: str | None = Field(default=None, pattern=r"^/[^\n]+$")

    HERE: ClassVar[str]
    """The mode for an address of this machine."""
    VERIFIED: ClassVar[tuple[str, str]]
    """The modes that verify who has signed, and the host's name as well."""
    UNVERIFIED: ClassVar[tuple[str, str]]
    """Encrypted, whatever the certificate; and not encrypted."""

    @model_validator(mode="after")
    def _authority_is_asked(self) -> Encrypted:
        if self.sslrootcert and self.sslmode not in (None, *self.VERIFIED):
            raise ValueError(f"sslrootcert does nothing with sslmode: {self.sslmode}; take one of them out")
        return self

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


class EncryptedBinlog(Encrypted):
    """Java reads no PEM there: `truststore` is a keystore on the Connect worker with what `sslrootcert` has."""

    truststore: str | None = Field(default=None, pattern=r"^/[^\n]+$")

    @model_validator(mode="after")
    def _both_read_theirs(self) -> EncryptedBinlog:
        if self.truststore and not self.sslrootcert:
            raise ValueError("truststore is for the connector alone: give sslrootcert too, the same authorities in PEM")
        return self
