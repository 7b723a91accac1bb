"""What went red or green and which runs failed, and the channels that are told of it: Slack, a webhook, mail.

CDC_ALERTS names the file of the channels; addresses and secrets stand in it by reference:

- {kind: slack, name: ops, url: {secret: slack_webhook}}
- {kind: webhook, name: pager, url: {env: PAGER_URL}}
- {kind: mail, name: team, host: smtp.example, sender: cdc@example.org, to: [team@example.org]}

Each channel is told once, with the command that mends it. A channel that takes no message raises, for its own sake alone.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cdc_assets.proof.chain_verdicts import FAILED, NOT_RUN, CheckVerdict
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import visible_lines
from cdc_assets.registry.errors import ServiceError, SettingError, plain_words
from cdc_assets.registry.field_types import Declared
from cdc_assets.registry.references import EnvRef, SecretRef

_LONGEST = 1000
"""Characters of a finding: a check may list many keys."""


@dataclass(frozen=True)
class Alert:
    """One message: `state` is red, green or failed. `mend` is the command, `link` a page of Dagster; either may be empty."""

    state: str
    place: str
    description: str = ""
    mend: str = ""
    link: str = ""

    def to_json(self) -> dict[str, str]:
        """The fields that a webhook gets."""
        return asdict(self)

    def text(self) -> str:
        """Some lines for people."""
        lines = [f"{self.state.upper()} {self.place}" + (f": {self.description}" if self.description else "")]
        lines += [f"  mend: {self.mend}"] if self.mend else []
        lines += [f"  {self.link}"] if self.link else []
        return visible_lines("\n".join(lines))


@dataclass(frozen=True)
class FailedRun:
    """A run that failed; `at` in epoch seconds."""

    run_id: str
    job: str
    at: float
    reason: str


@dataclass(frozen=True)
class ToldChanges:
    """What a channel knows: checks that are red, and up to when failed runs were told (epoch seconds)."""

    red: tuple[str, ...] = ()
    runs_up_to: float = 0.0
    runs: tuple[str, ...] = ()
    """Those of exactly that time."""


def changes(
    verdicts: Sequence[CheckVerdict],
    runs: Sequence[FailedRun],
    told: ToldChanges,
    *,
    mend: Callable[[CheckVerdict], str],
    page: str,
) -> tuple[list[Alert], ToldChanges]:
    """The alerts that a channel lacks which knows `told`, and what it knows once it has them.

    `mend` gives a check's command, `page` is the address of Dagster's pages. A check that has not run yet stays as it was.
    """
    by_place = {verdict.place: verdict for verdict in verdicts}
    red = [verdict for verdict in verdicts if verdict.state == FAILED and verdict.place not in told.red]
    kept = [name for name in told.red if name in by_place and by_place[name].state in (FAILED, NOT_RUN)]
    alerts = []
    for verdict in red:
        link = f"{page}/assets/{'/'.join(verdict.asset)}?view=checks&checkDetail={verdict.name}" if page else ""
        alerts.append(Alert("red", verdict.place, _short(verdict.description), mend(verdict), link))
    alerts += [Alert("green", name) for name in told.red if name in by_place and name not in kept]
    fresh = [run for run in runs if (run.at, run.run_id not in told.runs) > (told.runs_up_to, False)]
    alerts += [Alert("failed", f"run of {run.job}", _short(run.reason), link=f"{page}/runs/{run.run_id}") for run in fresh]
    newest = max([told.runs_up_to, *(run.at for run in fresh)])
    ids = tuple(run.run_id for run in runs if run.at == newest)
    return alerts, ToldChanges((*kept, *(verdict.place for verdict in red)), newest, ids)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def as_told(found: Mapping[str, Any]) -> ToldChanges:
    """What a channel knows, as the sensor's cursor has it (JSON)."""
    return ToldChanges(tuple(found.get("red") or ()), float(found.get("runs_up_to") or 0), tuple(found.get("runs") or ()))


VARIABLE = "CDC_ALERTS"
_SECONDS = 15.0
Address = str | EnvRef | SecretRef


def _value(reference: Address) -> str:
    return settings.secret(reference) if isinstance(reference, SecretRef) else settings.resolve(reference)


class Channel(Declared):
    """A receiver of alerts. What it was told is remembered under its name."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")

    def send(self, alerts: Sequence[Alert]) -> None:
        """All of them in one message. Raises SettingError: it did not take the message."""
        raise NotImplementedError


class Webhook(Channel):
    """A POST of JSON: `{"alerts": [{"state", "place", "description", "mend", "link"}]}`."""

    kind: Literal["webhook"]
    url: Address

    def send(self, alerts: Sequence[Alert]) -> None:
        """All of them, as `Channel.send` says."""
        _post(self.name, _value(self.url), {"alerts": [alert.to_json() for alert in alerts]})


class Slack(Channel):
    """An incoming webhook of Slack, or of what understands it (Mattermost)."""

    kind: Literal["slack"]
    url: Address

    def send(self, alerts: Sequence[Alert]) -> None:
        """All of them, as `Channel.send` says."""
        # No mention, no link: https://api.slack.com/reference/surfaces/formatting#escaping
        text = html.escape("\n".join(alert.text() for alert in alerts), quote=False)
        _post(self.name, _value(self.url), {"text": text})


class Mail(Channel):
    """A mail by SMTP. `security`: starttls (587), tls (465), or none, for a server on this machine."""

    kind: Literal["mail"]
    host: str | EnvRef
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | EnvRef | None = None
    password: SecretRef | None = None
    sender: str
    to: tuple[str, ...] = Field(min_length=1)

    def send(self, alerts: Sequence[Alert]) -> None:
        """All of them, as `Channel.send` says."""
        import smtplib
        import ssl

        host = settings.resolve(self.host)
        try:
            if self.security == "tls":
                server: smtplib.SMTP = smtplib.SMTP_SSL(host, self.port, timeout=_SECONDS, context=ssl.create_default_context())
            else:
                server = smtplib.SMTP(host, self.port, timeout=_SECONDS)
            with server:
                if self.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.user is not None and self.password is not None:
                    server.login(settings.resolve(self.user), settings.secret(self.password))
                server.send_message(self._message(alerts))
        except (OSError, smtplib.SMTPException) as error:
            raise ServiceError(f"{self.name}: {host}:{self.port} does not take the mail: {error}") from error

    def _message(self, alerts: Sequence[Alert]) -> EmailMessage:
        message = EmailMessage()
        more = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
        message["Subject"] = f"cdc: {alerts[0].state} {alerts[0].place}{more}".replace("\n", " ")
        message["From"], message["To"] = self.sender, ", ".join(self.to)
        message.set_content("\n\n".join(alert.text() for alert in alerts))
        return message


_FILE: TypeAdapter[tuple[Any, ...]] = TypeAdapter(
    tuple[Annotated[Webhook | Slack | Mail, Field(discriminator="kind")], ...],
)


def load_channels(file: Path) -> tuple[Channel, ...]:
    """The channels of the file. Raises SettingError: it is not there, or something in it is wrong."""
    try:
        channels: tuple[Channel, ...] = _FILE.validate_python(YAML(typ="safe").load(file.read_text(encoding="utf-8")) or ())
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, one['loc']))}: {plain_words(one)}" for one in error.errors(include_url=False))
        raise SettingError(f"{file}: {faults}; docs/how-to/alerts.md") from error
    except (OSError, YAMLError) as error:
        raise SettingError(f"{VARIABLE}={file} cannot be read: {error}") from error
    names = [channel.name for channel in channels]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f"{file}: two channels are called {', '.join(twice)}")
    return channels


def _post(name: str, url: str, body: dict[str, Any]) -> None:
    import httpx

    # The address is a secret, as a rule: no error shows it.
    try:
        answer = httpx.post(url, json=body, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ServiceError(f"{name}: the address does not answer: {type(error).__name__}") from None
    if not answer.is_success:
        raise ServiceError(f"{name}: the address answers {answer.status_code}: {answer.text[:200]}")
