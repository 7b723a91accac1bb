"""A look into a topic: its records, decoded, with sensitive values as hashes. Nothing is committed, no group is joined."""
