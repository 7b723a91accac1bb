"""Source databases: catalogue, markers in their log, consistent counts."""
