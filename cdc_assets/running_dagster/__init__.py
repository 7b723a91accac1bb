"""The chains as Dagster's webserver has them: compared with the registry, reloaded, and looked at before anybody says done."""
