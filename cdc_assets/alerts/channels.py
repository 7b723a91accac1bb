"""Where alerts go: the file that CDC_ALERTS names, with addresses and secrets by reference.

- {kind: slack, name: ops, url: {secret: slack_webhook}}
- {kind: webhook, name: pager, url: {env: PAGER_URL}}
- {kind: mail, name: team, host: smtp.example, sender: cdc@example.org, to: [team@example.org]}
"""

from __future__ import annotations

from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cdc_assets import settings
from cdc_assets.alerts.changes import Alert
from cdc_assets.errors import AlertsError
from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.declared import Declared
from cdc_assets.registry_files.plain_words import plain_words

VARIABLE = "CDC_ALERTS"
_SECONDS = 15.0
Address = str | EnvRef | SecretRef


def _value(reference: Address) -> str:
    return settings.secret(reference) if isinstance(reference, SecretRef) else settings.resolve(reference)


class Channel(Declared):
    """One place that is told; by its name it remembers what it was told."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")

    def send(self, alerts: Sequence[Alert]) -> None:
        """All of them in one message.

        Raises:
            AlertsError: it did not take the message.
        """
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
        _post(self.name, _value(self.url), {"text": _for_slack("\n".join(alert.text() for alert in alerts))})


def _for_slack(text: str) -> str:
    """No mention, no link: https://api.slack.com/reference/surfaces/formatting#escaping"""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


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
            raise AlertsError(f"{self.name}: {host}:{self.port} does not take the mail: {error}") from error

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
    """The channels of the file.

    Raises:
        AlertsError: it is not there, or something in it is wrong.
    """
    try:
        found: tuple[Channel, ...] = _FILE.validate_python(YAML(typ="safe").load(file.read_text(encoding="utf-8")) or ())
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, each['loc']))}: {plain_words(each)}" for each in error.errors(include_url=False))
        raise AlertsError(f"{file}: {said}; docs/how-to/alerts.md") from error
    except (OSError, YAMLError) as error:
        raise AlertsError(f"{VARIABLE}={file} cannot be read: {error}") from error
    names = [channel.name for channel in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise AlertsError(f"{file}: two channels are called {', '.join(twice)}")
    return found


def _post(name: str, url: str, body: dict[str, Any]) -> None:
    """The address is a secret, as a rule: no error shows it."""
    import httpx

    try:
        answer = httpx.post(url, json=body, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise AlertsError(f"{name}: the address does not answer: {type(error).__name__}") from None
    if not answer.is_success:
        raise AlertsError(f"{name}: the address answers {answer.status_code}: {answer.text[:200]}")
