"""The embedded local stack: real services as child processes of one supervisor, no containers."""
