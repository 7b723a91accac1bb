"""What stands between a connector as it is and as it is declared. Values that may be secrets are shown as `[hidden]`.

Of a connector that git has deployed an operator writes some otherwise:

| on Connect | declared here | why it is the same |
|---|---|---|
| `${secrets:kafka/cdc-secrets:shop}` | `${dir:/secrets:shop}` | one secret, by the provider that the worker has |
| addresses and logins of Kafka clients | others, or none | the deployment's, not the registry's |
| `^(?:a|b|c)$` | `a,b` | a KafkaMirrorMaker2 carries all sources' topics in one pattern |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.capture.connectors.connector_start import is_beginning
from cdc_assets.capture.connectors.record_converters import refuse_other_form
from cdc_assets.capture.connectors.setting_overrides import settle, with_public_text
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import mask_value
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource

_REFERENCE = re.compile(r"\$\{[^:}]+:(?:[^:}]*:)?([^:}]+)\}")
_CLIENT = r"(source\.cluster|target\.cluster|schema\.history\.internal(\.\w+)?|(consumer|producer|admin)\.override)"
_OF_THE_DEPLOYMENT = re.compile(rf"{_CLIENT}\.(bootstrap\.servers|security\.protocol|ssl\..+|sasl\..+)")


def find_differing_keys(declared: Mapping[str, str], deployed: Mapping[str, str], *, shared: bool) -> list[str]:
    """`shared`: other sources' topics may be in it too."""
    keys = sorted({*declared, *deployed})
    return [key for key in keys if not _same(key, declared.get(key), deployed.get(key), shared=shared)]


def _same(key: str, declared: str | None, deployed: str | None, *, shared: bool) -> bool:
    if declared == deployed or _OF_THE_DEPLOYMENT.fullmatch(key):
        return True
    if declared is None or deployed is None:
        return False
    if shared and key == "topics":
        # Both are as we render them: `a\.b` for topic a.b.
        inner = re.fullmatch(r"\^\(\?:(.*)\)\$", deployed)
        return inner is not None and set(declared.split(",")) <= set(inner[1].split("|"))
    ours, theirs = (_REFERENCE.sub(r"${\1}", text) for text in (declared, deployed))
    return ours == theirs


@dataclass(frozen=True)
class KeyChange:
    """One config key: what Connect has and what is declared, fit to be shown; None where it is absent."""

    key: str
    current: str | None
    declared: str | None


@dataclass(frozen=True)
class ConnectorDifference:
    """Between Connect and the registry, for one connector; `findings` are Connect's own against the declared config."""

    name: str
    url: str
    exists: bool
    changes: tuple[KeyChange, ...]
    findings: Mapping[str, list[str]]
    taken_by: str = ""
    running: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole config on Connect, secrets among it; empty where there is none."""

    @property
    def summary(self) -> str:
        """create, change, same, or refused."""
        if self.refusal:
            return "refused"
        if not self.exists:
            return "create"
        return "change" if self.changes else "same"

    @property
    def refusal(self) -> str:
        """Why the declared config cannot be applied; empty when it can."""
        if self.taken_by:
            return (
                f"a connector of that name runs {self.taken_by}: it is not ours; rename the source, "
                f"or delete that connector if nobody needs it"
            )
        return "; ".join(f"{key}: {' '.join(errors)}" for key, errors in sorted(self.findings.items()))

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one connector."""
        return {
            "connector": self.name,
            "connect": self.url,
            "summary": self.summary,
            "refusal": self.refusal or None,
            "changes": [{"key": c.key, "current": c.current, "declared": c.declared} for c in self.changes],
        }

    def lines(self) -> list[str]:
        """Like a unified diff."""
        if self.summary == "same":
            return []
        head = [f"--- {self.name} at {self.url}" + ("" if self.exists else " (absent)"), f"+++ {self.name} as declared"]
        for change in self.changes:
            head += [f"-{change.key}={change.current}"] if change.current is not None else []
            head += [f"+{change.key}={change.declared}"] if change.declared is not None else []
        return head + ([f"refused: {self.refusal}"] if self.refusal else [])


def difference_to_git(connect: ConnectClient, config: Mapping[str, str], *, shared: bool = False) -> ConnectorDifference:
    """Compare with what an operator has deployed; Connect validates nothing, since nothing of ours is to be applied."""
    current, config = connect.config(config["name"]), with_public_text(config)
    before = current or {}
    taken_by = "" if current is None else _other_class(before, config)
    keys = [] if taken_by else find_differing_keys(config, before, shared=shared)
    secret = connect.password_keys(config["connector.class"]) if keys else frozenset()
    changes = tuple(KeyChange(key, _mask(key, before, secret), _mask(key, config, secret)) for key in keys)
    return ConnectorDifference(config["name"], connect.url, current is not None, changes, {}, taken_by)


def difference_of(connect: ConnectClient, source: BaseSource, config: Mapping[str, str]) -> ConnectorDifference:
    """By who owns the source's connectors."""
    if source.managed_by == "gitops":
        return difference_to_git(connect, config, shared=config["name"] == names.SHARED_MIRROR)
    return difference(connect, config)


def difference(connect: ConnectClient, config: Mapping[str, str]) -> ConnectorDifference:
    """Compare, and let Connect validate what differs; nothing is changed."""
    name = config["name"]
    running = connect.config(name) or {}
    # One that was created and not begun is still to be created.
    before = {} if is_beginning(running) else running
    declared, config = config, settle(config, before)
    keys = sorted(key for key in {*config, *before} if config.get(key) != before.get(key))
    taken_by = _other_class(before, config) if before else ""
    if not keys or taken_by:
        return ConnectorDifference(name, connect.url, bool(before), (), {}, taken_by, running)
    findings = refuse_other_form(before, config) or connect.validate(config)
    # Connect's plugin answers only for a class that it has; validate has said so otherwise.
    secret = connect.password_keys(config["connector.class"])
    changes = tuple(KeyChange(k, _mask(k, before, secret), _mask(k, declared, secret)) for k in keys)
    return ConnectorDifference(name, connect.url, bool(before), changes, findings, running=running)


def _mask(key: str, config: Mapping[str, str], secret: frozenset[str]) -> str | None:
    return mask_value(key, config[key], secret) if key in config else None


def _other_class(current: Mapping[str, str], config: Mapping[str, str]) -> str:
    running = current.get("connector.class", "")
    # Connect takes the simple name for the full one.
    same = running.rsplit(".", 1)[-1] == config["connector.class"].rsplit(".", 1)[-1]
    return "" if same else running
