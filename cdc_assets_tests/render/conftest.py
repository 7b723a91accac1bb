"""What is collected here."""

from __future__ import annotations

import os

# A broker with an authorizer, two Connect workers and Spark on it take a minute: CDC_TEST_ACLS=1 asks for them.
collect_ignore = [] if os.environ.get("CDC_TEST_ACLS") else ["test_acls_live.py"]
