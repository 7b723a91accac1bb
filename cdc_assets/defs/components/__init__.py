"""Sources as Dagster Components, for projects of the user's own (cdc_assets.components is their door)."""
