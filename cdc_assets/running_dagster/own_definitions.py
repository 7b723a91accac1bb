"""What CDC_DEFINITIONS names reaches the embedded stack's code server while it runs, and is looked at afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cdc_assets import settings
from cdc_assets.errors import DefinitionsError
from cdc_assets.running_dagster.loaded_definitions import LoadedDefinitions, definitions_news, read_loaded
from cdc_assets.running_dagster.webserver import Webserver
from cdc_assets.stack.holder import supervisor_pid
from cdc_assets.stack.home import Home, read_json

_POLL_SECONDS = 0.3


def news_of_definitions(url: str) -> str:
    """As `definitions_news`, where the webserver at `url` is the embedded stack's; empty elsewhere."""
    home = Home(settings.home())
    return definitions_news(home.loaded) if _is_embedded(home, url) else ""


def offer_definitions(url: str, check: Callable[[str], None]) -> None:
    """The next reload takes what CDC_DEFINITIONS names, where it is set, once `check` has let it pass.

    Raises:
        UserDefinitionsError: by `check`; the stack keeps what it has.
    """
    home = Home(settings.home())
    if not _is_embedded(home, url) or not definitions_news(home.loaded):
        return
    if named := settings.user_definitions():
        check(named)
    from cdc_assets.stack.added_sources import remember

    remember(home, ["CDC_DEFINITIONS"])


def await_definitions(url: str, *, timeout: float) -> LoadedDefinitions | None:
    """After a reload: wait until the server has loaded what is named, and the webserver shows its assets.

    None where the webserver is not the embedded stack's.

    Raises:
        DefinitionsError: what was not loaded, and why where the server says it.
    """
    home, until = Home(settings.home()), time.monotonic() + timeout
    if not _is_embedded(home, url) or read_loaded(home.loaded) is None:
        return None
    while True:
        loaded, news = read_loaded(home.loaded), definitions_news(home.loaded)
        if loaded is not None and not news:
            known = {"/".join(key) for found in Webserver(url, seconds=timeout).locations() for key in found.assets}
            if not (lacking := sorted(set(loaded.assets) - known)):
                return loaded
            news = f"of {loaded.named} the webserver at {url} does not have {', '.join(lacking)}"
        if (loaded is not None and news == loaded.error) or time.monotonic() > until:
            raise DefinitionsError(_reason(news, loaded))
        time.sleep(_POLL_SECONDS)


def _reason(news: str, loaded: LoadedDefinitions | None) -> str:
    is_module = loaded is not None and bool(loaded.named) and not Path(loaded.named).is_absolute()
    hint = " A module that the stack's PYTHONPATH lacks needs: ./cdc down, then ./cdc up." if is_module else ""
    return f"Dagster was asked to reload, and still: {news}.{hint} ./cdc logs dagster-code says more; then: cdc reload"


def _is_embedded(home: Home, url: str) -> bool:
    if "CDC_DAGSTER_URL" in read_json(home.config).get("external", {}):
        return False
    return read_json(home.stack).get("environment", {}).get("CDC_DAGSTER_URL") == url and bool(supervisor_pid(home))
