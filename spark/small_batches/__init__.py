"""Bronze's small appends, made inside a task of one Spark job: the contract of spark.bronze, without its plans.

    job       whether a batch is small, and the job of one task that appends it
    task      the append: what bronze has, what Kafka holds, one commit
    reading   committed records of offset ranges as Arrow, by librdkafka
    narrow    what Debezium's JSON says of a record: op, transaction, time, place
    groups    what a batch holds, as its commit says it

A batch with a record that its envelope alone does not tell (no JSON, a position that follows from others, a header of ours) is
left to Spark, as is one whose ranges Kafka does not hand out: spark.bronze.job names what is lost.
"""
