"""Which incarnation of its database a source is: a restored or promoted server is another.

See docs/explanation/incarnations.md.
"""
