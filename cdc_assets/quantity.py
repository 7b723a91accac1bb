"""A number and its noun, in a message: as the jobs count them."""

from spark.errors import quantity

__all__ = ["quantity"]
