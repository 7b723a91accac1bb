"""Silver and a history made again from bronze, by today's rules: beside the live table, compared with it, put in its place."""
