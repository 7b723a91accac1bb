"""What is captured: declared in YAML, one file per source, checked before anything runs."""
