"""SQL of the databases that are asked for rows, a file each: no driver and no session, only the text of statements."""
