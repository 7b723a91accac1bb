"""The user's own definitions in the embedded code server: which it has loaded, and how new ones reach it while it runs.

The code server notes what it has loaded:

{"named": "/home/me/gold.py", "file": "/home/me/gold.py", "digest": "3f…", "assets": ["gold/cities"], "error": ""}

CDC_DEFINITIONS names what it shall have. The two are compared after each reload, and an error of the user's module is told.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cdc_assets.operations.dagster_webserver import Webserver
from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.registry.errors import ServiceError
from cdc_assets.stack.home import Home, read_json, supervisor_pid

_NOTE = "definitions.json"


@dataclass(frozen=True)
class LoadedDefinitions:
    """`named` as CDC_DEFINITIONS had it, empty: none. `file` and its `digest`, the `assets` that came, or an `error`."""

    named: str = ""
    file: str = ""
    digest: str = ""
    assets: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_newest(self) -> bool:
        """The file holds what was loaded."""
        return self.digest == digest_of(self.file)


def digest_of(file: str) -> str:
    """The sha256 of the file in hexadecimal digits; empty where there is none."""
    path = Path(file)
    return hashlib.sha256(path.read_bytes()).hexdigest() if file and path.is_file() else ""


def note_loaded(folder: Path, loaded: LoadedDefinitions) -> None:
    """Write what the code server of `folder` has loaded, for `read_loaded`."""
    replace_json(folder / _NOTE, asdict(loaded))


def read_loaded(folder: Path) -> LoadedDefinitions | None:
    """What the code server of `folder` has loaded; None: none has noted anything."""
    noted = read_json(folder / _NOTE)
    return LoadedDefinitions(**{**noted, "assets": tuple(noted["assets"])}) if noted else None


def definitions_news(folder: Path) -> str:
    """What CDC_DEFINITIONS names and the server has not loaded, as one clause; empty where they agree."""
    loaded, named = read_loaded(folder), settings.user_definitions() or ""
    if loaded is None:
        return ""
    if loaded.named != named:
        has = f"Dagster has {loaded.named}" if loaded.named else "Dagster has no definitions of yours"
        return f"CDC_DEFINITIONS={named} is not loaded, {has}"
    if not loaded.is_newest:
        return f"{loaded.file} has changed since Dagster loaded it"
    return loaded.error


_POLL_SECONDS = 0.3


def news_of_definitions(url: str) -> str:
    """As `definitions_news`, where the webserver at `url` is the embedded stack's; empty elsewhere."""
    home = Home(settings.home())
    return definitions_news(home.loaded) if _is_embedded(home, url) else ""


def offer_definitions(url: str, check: Callable[[str], None]) -> None:
    """The next reload takes what CDC_DEFINITIONS names, where it is set, once `check` has let it pass.
    Raises SettingError: by `check`; the stack keeps what it has."""
    home = Home(settings.home())
    if not _is_embedded(home, url) or not definitions_news(home.loaded):
        return
    if named := settings.user_definitions():
        check(named)
    from cdc_assets.stack.declared_needs import remember_needs

    remember_needs(home, ["CDC_DEFINITIONS"])


def await_definitions(url: str, *, timeout: float) -> LoadedDefinitions | None:
    """After a reload: wait until the server has loaded what is named, and the webserver shows its assets.

    None where the webserver is not the embedded stack's.

    Raises ServiceError: what was not loaded, and why where the server says it.
    """
    home, until = Home(settings.home()), time.monotonic() + timeout
    if not _is_embedded(home, url) or read_loaded(home.loaded) is None:
        return None
    while True:
        loaded, news = read_loaded(home.loaded), definitions_news(home.loaded)
        if loaded is not None and not news:
            assets = {"/".join(key) for location in Webserver(url, seconds=timeout).locations() for key in location.assets}
            if not (lacking := sorted(set(loaded.assets) - assets)):
                return loaded
            news = f"of {loaded.named} the webserver at {url} does not have {', '.join(lacking)}"
        if (loaded is not None and news == loaded.error) or time.monotonic() > until:
            raise ServiceError(_reason(news, loaded))
        time.sleep(_POLL_SECONDS)


def _reason(news: str, loaded: LoadedDefinitions | None) -> str:
    is_module = loaded is not None and bool(loaded.named) and not Path(loaded.named).is_absolute()
    hint = " A module that the stack's PYTHONPATH lacks needs: ./cdc down, then ./cdc up." if is_module else ""
    return f"Dagster was asked to reload, and still: {news}.{hint} ./cdc logs dagster-code says more; then: cdc reload"


def _is_embedded(home: Home, url: str) -> bool:
    if "CDC_DAGSTER_URL" in read_json(home.config).get("external", {}):
        return False
    return read_json(home.stack).get("environment", {}).get("CDC_DAGSTER_URL") == url and bool(supervisor_pid(home))
