"""All chains of a registry as one code location, with the user's own definitions; what of it the running Dagster has."""
