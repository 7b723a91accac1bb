"""What is collected here."""

from __future__ import annotations

import os

# A broker with an authorizer, two Connect workers and Spark on it take a minute: CDC_TEST_ACLS=1 asks for them. Aiven's
# plugin is in no Maven repository: CDC_TEST_SINK names its folder.
_ASKED = {"test_acls_live.py": "CDC_TEST_ACLS", "test_sink_live.py": "CDC_TEST_SINK"}
collect_ignore = [file for file, variable in _ASKED.items() if not os.environ.get(variable)]
