"""The code location: every source of the registry, and the user's own definitions, composed; no logic here."""

from __future__ import annotations

from cdc_assets.defs.code_location import add_user_definitions, build_code_location
from cdc_assets.registry import settings
from cdc_assets.registry.registry_copy import sources_to_define

SOURCES = sources_to_define()

defs = add_user_definitions(build_code_location(SOURCES, settings.sources_folder()))
