"""Subjects of a schema registry with Confluent's REST API, read whole and registered again with the ids that they had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cdc_assets.registry.errors import ServiceError
from spark.events.avro_schemas import ACCEPT, without_login

_SECONDS = 10.0
_NO_MODES = (404, 405, 422, 501)
"""Answers of a registry that has no modes, or may not change them."""
IMPORT = "IMPORT"

Version = Mapping[str, Any]
"""As `GET /subjects/SUBJECT/versions/N` answers: `id`, `version`, `schema`, and `schemaType` or `references` where there are."""


class SchemaSubjects:
    """Of one registry; a login in its address is sent, and never shown."""

    def __init__(self, address: str) -> None:
        self.shown, login = without_login(address.rstrip("/"))
        self._headers = {"Accept": ACCEPT, **login}

    def versions(self, subject: str) -> list[Version]:
        """All of a subject, in their order; empty where there is no such subject.
        Raises ServiceError: the registry does not answer."""
        path = _place(subject)
        versions = (
            self._ask("GET", f"{path}/{number}", missing=(404,)) for number in self._ask("GET", path, missing=(404,)) or ()
        )
        return [version for version in versions if version is not None]

    def schema(self, schema_id: int) -> Version | None:
        """What the registry has under an id; None: nothing."""
        schema: Version | None = self._ask("GET", f"/schemas/ids/{schema_id}", missing=(404,))
        return schema

    def register(self, subject: str, version: Version, *, as_it_was: bool) -> int:
        """The id that it has then; `as_it_was` asks for its own id and number, which only a subject in IMPORT takes."""
        fields = ("schema", "schemaType", "references", *(("id", "version") if as_it_was else ()))
        answer = self._ask("POST", _place(subject), {name: version[name] for name in fields if version.get(name)})
        return int(answer["id"])

    def forget(self, subject: str, schema_id: int) -> None:
        """The subject's version of this id goes for good."""
        for version in self.versions(subject):
            if version["id"] == schema_id:
                path = f"{_place(subject)}/{version['version']}"
                self._ask("DELETE", path)
                self._ask("DELETE", f"{path}?permanent=true", missing=(404,))

    def begin_import(self, subject: str) -> bool:
        """Let the subject take ids; False where the registry knows no such thing."""
        answer = self._ask("PUT", f"/mode/{quote(subject, safe='')}?force=true", {"mode": IMPORT}, missing=_NO_MODES)
        return answer is not None

    def is_in_import(self, subject: str) -> bool:
        """Whether it still takes ids, and so nothing from a converter."""
        answer = self._ask("GET", f"/mode/{quote(subject, safe='')}", missing=_NO_MODES)
        return answer is not None and answer.get("mode") == IMPORT

    def end_import(self, subject: str) -> None:
        """The subject takes what converters register, as the registry's others do."""
        self._ask("DELETE", f"/mode/{quote(subject, safe='')}")

    def _ask(self, method: str, place: str, body: Mapping[str, Any] | None = None, *, missing: tuple[int, ...] = ()) -> Any:
        """None where the answer's code is one of `missing`."""
        import httpx

        url = f"{self.shown}{place}"
        try:
            answer = httpx.request(method, url, headers=self._headers, json=body, timeout=_SECONDS)
            if answer.status_code in missing:
                return None
            if answer.is_error:
                raise ServiceError(f"schema registry: {method} {url} answers {answer.status_code}: {answer.text[:300]}")
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServiceError(f"schema registry: {method} {url}: {type(error).__name__}: {error}; is it running?") from error


def _place(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions"
