"""Jars of the Java components: declared in `jar_sets.py`, locked in `jars.lock.toml`, fetched once into a cache."""
