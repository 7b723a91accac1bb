"""Other ways to carry the same events of the same topics into tables, in the same run: what this product is compared with.

peer         what each of them does: new records of topics into one table each
spark_peers  Iceberg's MERGE, and foreachBatch with Delta's, on a Spark of their own
spark_driver the process of that Spark
delta_rs     delta-rs and PyArrow in this process

They write one table for each topic, where this product writes bronze and silver. None of them keeps a commit contract, a
quarantine, a ledger or late events: they do the least that makes the same rows.
"""
