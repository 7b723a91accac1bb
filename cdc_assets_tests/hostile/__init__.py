"""Names and settings of a database that nobody would choose, and what must arrive all the same."""
