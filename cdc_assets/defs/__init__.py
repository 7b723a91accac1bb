"""What Dagster sees: assets, checks, sensors, schedules and jobs. No other folder makes them; nothing else needs what is here."""
