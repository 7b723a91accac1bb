"""A hostile workload, made from one seed: names, types, keys, partitions, DDL in flight, crossed transactions.

One seed makes one world: a source of a few tables, what happens to them, and what silver must hold in the end. A reader
that is not Spark compares it with the database. `./cdc test cdc_assets_tests/hostile --hostile-seed N` plays a seed again.
"""
