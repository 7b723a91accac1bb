"""The code location: every source of the registry, and the user's own definitions, composed; no logic here."""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.defs.code_location import build_code_location
from cdc_assets.defs.user_definitions import add_user_definitions
from cdc_assets.registry_files.loaded_copy import sources_to_define

SOURCES = sources_to_define()

defs = add_user_definitions(build_code_location(SOURCES, settings.sources_folder()))
