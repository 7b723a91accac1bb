"""Tables as they are now: silver and what bronze holds beyond it, for whoever reads Arrow or DuckDB; nothing is written.

from cdc_assets.silver_now import now, register
"""

from cdc_assets.silver_now.current_table import CurrentTable, now
from cdc_assets.silver_now.duckdb_views import register

__all__ = ["CurrentTable", "now", "register"]
