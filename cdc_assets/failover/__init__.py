"""A source whose server is another incarnation is read anew, in an epoch of its own (docs/explanation/incarnations.md)."""
