"""Spans in OTLP's JSON form, and the POST that a collector takes them by.

Variables and paths are OpenTelemetry's own, so that a collector that is named for others is found:
https://opentelemetry.io/docs/specs/otlp/#otlphttp and .../specs/otel/protocol/exporter/. Ids are hexadecimal in this form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from cdc_assets.registry import settings
from cdc_assets.registry.errors import ServiceError

ENDPOINT, OF_TRACES, NAME = settings.OF_TRACES
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_SECONDS = 10.0
_INTERNAL, _OK, _ERROR = 1, 1, 2
AttributeValue = str | int | float | bool


@dataclass(frozen=True)
class SpanEvent:
    """Something that happened within a span; `at` in epoch seconds."""

    name: str
    at: float
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Span:
    """Some work; `began` and `ended` in epoch seconds, `failure` says why it failed. `parent` is a path, or empty."""

    trace: str
    path: str
    parent: str
    name: str
    began: float
    ended: float
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    failure: str | None = None

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits: of the same trace the same, however often it is sent."""
        return hashlib.sha256(self.trace.encode()).hexdigest()[:32]

    def span_id(self, path: str) -> str:
        """16 of them, for a path within this trace."""
        return hashlib.sha256(f"{self.trace} {path}".encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """As OTLP has a span."""
        failed = self.failure is not None
        span = {
            "traceId": self.trace_id,
            "spanId": self.span_id(self.path),
            "name": self.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": _nanoseconds(self.began),
            "endTimeUnixNano": _nanoseconds(self.ended),
            "attributes": _attributes(self.attributes),
            "events": [
                {"name": event.name, "timeUnixNano": _nanoseconds(event.at), "attributes": _attributes(event.attributes)}
                for event in self.events
            ],
            "status": {"code": _ERROR, "message": self.failure} if failed else {"code": _OK},
        }
        return {**span, "parentSpanId": self.span_id(self.parent)} if self.parent else span


def traces_endpoint() -> str | None:
    """Where spans are sent; None where no collector is named."""
    if whole := settings.lookup(OF_TRACES):
        return whole
    base = settings.lookup(ENDPOINT)
    return f"{base.rstrip('/')}/v1/traces" if base else None


def send_spans(endpoint: str, spans: Sequence[Span]) -> None:
    """All of them, by one POST. Raises ServiceError: the collector did not take them."""
    import httpx

    resource = {"service.name": settings.lookup(NAME) or "cdc_assets"}
    scope = {"scope": {"name": "cdc_assets"}, "spans": [span.to_json() for span in spans]}
    request = {"resourceSpans": [{"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scope]}]}
    try:
        answer = httpx.post(endpoint, json=request, headers=_headers(), timeout=_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServiceError(f"the collector at {endpoint} does not answer: {error or type(error).__name__}") from error
    if answer.status_code >= 300:
        raise ServiceError(f"the collector at {endpoint} answers {answer.status_code}: {answer.text.strip()[:200]}")


def _headers() -> dict[str, str]:
    # As OpenTelemetry writes them: `api-key=abc,other=x%20y`.
    pairs = (pair.split("=", 1) for pair in (settings.lookup(HEADERS) or "").split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, value in pairs}


def _attributes(values: Mapping[str, AttributeValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _nanoseconds(at: float) -> str:
    return str(round(at * 1_000_000) * 1000)
