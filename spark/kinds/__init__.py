"""What formats and positions there are: two tables that import nothing, so that a registry can be read without Spark."""
