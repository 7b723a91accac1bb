"""Columns of databases whose types are translated into PostgreSQL's, where a table does not declare its own: a file per kind."""
