"""Where the schemas of a source's records are: a registry with Confluent's REST API, and its login by reference."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import field_validator, model_validator

from cdc_assets import settings
from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.declared import Declared
from spark.envelopes.schema_registry import without_login
from spark.errors import SchemaRegistryError

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

    @model_validator(mode="after")
    def _has_a_whole_login(self) -> SchemaRegistry:
        if (self.user is None) != (self.password is None):
            raise ValueError("a login is a user and a password: declare both, or neither")
        if self.user is not None and self.has_login_in_url:
            raise ValueError("url: its login stands in user and password already")
        return self

    @property
    def has_login_in_url(self) -> bool:
        """Whether the address itself holds a login, in clear."""
        return isinstance(self.url, str) and bool(without_login(self.url)[1])

    @property
    def place(self) -> str:
        """Where it is, without a login.

        Raises:
            MissingAddressError: its variable is not set.
            SchemaRegistryError: it is no address.
        """
        try:
            return _without_login(settings.resolve(self.url))
        except ValueError as error:
            raise SchemaRegistryError(str(error)) from error

    @property
    def address(self) -> str:
        """What the jobs are told: the login in front of the host, as `spark.envelopes.schema_registry` takes it off again.

        Raises:
            MissingAddressError, MissingSecretError: a reference leads nowhere.
            SchemaRegistryError: it is no address.
        """
        if self.user is None or self.password is None:
            _ = self.place
            return settings.resolve(self.url)
        parts = urlsplit(self.place)
        login = ":".join(quote(each, safe="") for each in (settings.resolve(self.user), settings.secret(self.password)))
        return urlunsplit(parts._replace(netloc=f"{login}@{parts.netloc}"))


def _without_login(url: str) -> str:
    """Without its login.

    Raises:
        ValueError: it is no http(s) address, or its login breaks it.
    """
    if not re.match(r"https?://[^/]", url):
        raise ValueError("schema registry: its address is http://… or https://…")
    try:
        return without_login(url)[0]
    except SchemaRegistryError as error:
        raise ValueError(str(error)) from error


def apicurio_root(url: str) -> str:
    """The address of Apicurio itself, by that of its API as Confluent's; empty where the address is none of Apicurio's."""
    found = _APICURIO.fullmatch(url)
    return found[1] if found else ""
