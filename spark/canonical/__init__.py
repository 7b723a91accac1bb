"""One text per value that the source database and Spark both write the same: what a comparison hashes."""
