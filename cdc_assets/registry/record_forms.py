"""In which form a source's records are: envelope, Debezium's modes for values, event time, and the registry of their schemas.

The default modes are exact for most types (docs/reference/types.md). A registry has Confluent's REST API; its login stands
there by reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, TypedDict
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, field_validator, model_validator

from cdc_assets.registry import settings
from cdc_assets.registry.field_types import Declared
from cdc_assets.registry.references import EnvRef, SecretRef
from spark.errors import EndpointError
from spark.events.avro_schemas import without_login
from spark.values.handling_modes import Modes


class RecordForm(TypedDict):
    """What spark.specs.TopicRange and SilverSpec are told."""

    envelope: str
    connector: str
    schema_registry: str | None


class ValueForms(Declared):
    """How a connector writes values. The defaults are exact for most types (docs/reference/types.md).

    They are Debezium's `decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`, `interval.handling.mode`,
    `hstore.handling.mode` and its unknown types. `unsigned` is MariaDB's `bigint.unsigned.handling.mode`.
    """

    decimal: Literal["string", "precise", "double"] = "string"
    temporal: Literal["microseconds", "adaptive", "adaptive_time_microseconds", "connect", "nanoseconds", "isostring"] = (
        "microseconds"
    )
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    interval: Literal["string", "numeric"] = "string"
    hstore: Literal["json", "map"] = "json"
    unknown: Literal["include", "omit"] = "include"
    unsigned: Literal["precise", "long"] = "precise"

    @property
    def modes(self) -> str:
        """As spark.specs.Column has them."""
        return Modes(**self.model_dump()).text()


class EventTime(Declared):
    """A field of the record that says when the event happened. Without it, that is when Kafka was given the record.

    `field` is its name; dots go down into objects. `form` is how it is written: an ISO text, or a number since 1970.
    """

    field: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")
    form: Literal["iso", "seconds", "milliseconds", "microseconds"] = "iso"


_APICURIO = re.compile(r"(https?://.+)/apis/ccompat/v\d+/?")


class SchemaRegistry(Declared):
    """A schema registry with Confluent's REST API: Confluent's, Apicurio, Karapace, Redpanda.

    `url` is where that API answers; of Apicurio it ends in `/apis/ccompat/v7`. Whoever must log in has a `user` and a
    `password`. A plain address stands for `{url: …}`.
    """

    url: str | EnvRef
    user: str | EnvRef | None = None
    password: SecretRef | None = None

    @model_validator(mode="before")
    @classmethod
    def _address_alone(cls, given: Any) -> Any:
        return {"url": given} if isinstance(given, str) else given

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str | EnvRef) -> str | EnvRef:
        if isinstance(url, str):
            _without_login(url)
        return url

    def refusals(self) -> Iterator[str]:
        """Half a login, or two."""
        if (self.user is None) != (self.password is None):
            yield "a login is a user and a password: declare both, or neither"
        if self.user is not None and self.has_login_in_url:
            yield "url: its login stands in user and password already"

    @property
    def has_login_in_url(self) -> bool:
        """Whether the address itself holds a login, in clear."""
        return isinstance(self.url, str) and bool(without_login(self.url)[1])

    @property
    def place(self) -> str:
        """Where it is, without a login. Raises MissingAddressError: its variable is not set. EndpointError: it is no address."""
        try:
            return _without_login(settings.resolve(self.url))
        except ValueError as error:
            raise EndpointError(str(error)) from error

    @property
    def address(self) -> str:
        """What the jobs are told: the login in front of the host, as `spark.events.avro_schemas` takes it off again.
        Raises MissingAddressError, MissingSecretError: a reference leads nowhere; EndpointError: it is no address."""
        if self.user is None or self.password is None:
            _ = self.place
            return settings.resolve(self.url)
        parts = urlsplit(self.place)
        login = ":".join(quote(text, safe="") for text in (settings.resolve(self.user), settings.secret(self.password)))
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))


def _without_login(url: str) -> str:
    if not re.match(r"https?://[^/]", url):
        raise ValueError("schema registry: its address is http://… or https://…")
    try:
        return without_login(url)[0]
    except EndpointError as error:
        raise ValueError(str(error)) from error


def apicurio_root(url: str) -> str:
    """The address of Apicurio itself, by that of its API as Confluent's; empty where the address is none of Apicurio's."""
    match = _APICURIO.fullmatch(url)
    return match[1] if match else ""
