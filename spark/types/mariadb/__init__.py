"""MariaDB's types: one module per family, as for PostgreSQL; `columns` reads them from `information_schema`."""
