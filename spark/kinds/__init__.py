"""Formats, positions and kinds of columns: tables that import nothing, so that a registry can be read without Spark."""
