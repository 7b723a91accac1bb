"""Jars of the Java components: declared in `sets.py`, locked in `jars.lock.toml`, fetched once into a cache."""
