"""A real MySQL: run where CDC_TEST_MYSQL names a mysqld, and not collected without."""

import os

collect_ignore_glob = [] if os.environ.get("CDC_TEST_MYSQL") else ["test_*.py"]
