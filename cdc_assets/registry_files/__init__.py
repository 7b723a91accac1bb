"""Registry files: read, judged as a whole, kept and compared. What one file may say is in `cdc_assets/registry`."""
