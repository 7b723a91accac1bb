"""Consistent cuts: all tables of a source at one place between two commits of its log, each as a version of its Delta table."""
