"""Traces of a cycle: each run is a span, its steps are spans in it, sent by OTLP to a collector of the user's."""
