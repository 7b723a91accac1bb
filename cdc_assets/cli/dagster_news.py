"""What the verbs that look at the lake say first: that Dagster does not have the registry as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.errors import DefinitionsError

if TYPE_CHECKING:
    from cdc_assets.running_dagster.news import RegistryNews


def dagster_news() -> RegistryNews | None:
    """None: no Dagster is known."""
    from cdc_assets.running_dagster.news import RegistryNews, registry_news

    url = settings.lookup("CDC_DAGSTER_URL")
    if url is None:
        return None
    try:
        return registry_news(url, settings.sources_folder())
    except DefinitionsError as error:
        return RegistryNews(unknown=str(error))
