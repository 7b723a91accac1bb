"""The lake's tables at a cut, for whoever reads Arrow or DuckDB; no JVM, and nothing is written.

from cdc_assets.lake import at
"""

from cdc_assets.lake.lake_at_cut import LakeAtCut, TableAtCut, at

__all__ = ["LakeAtCut", "TableAtCut", "at"]
