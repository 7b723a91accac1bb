"""What takes minutes is run when it is asked for: every route of a MariaDB, killed, resumed and rolled back."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("CDC_TEST_ONBOARDING_MARIADB") else ["test_mariadb_routes.py"]
