"""Silver's tables that are small, merged inside the tasks of one Spark job: many tables cost a task's work each, not a job's.

    job       the tables of a source, spread over the tasks of one job
    task      one table: looked at, folded, merged, committed
    tail      bronze's newest records as Arrow
    decode    records to typed changes
    newest    one change per key
    merge     the changes into a table that a task does not hold, by delta-rs
    birth     a table that is not there yet

The contract is that of spark.silver, commit by commit: the same rows, metadata and ledger, so that a table may change sides at
any commit. A batch that holds more than whole rows in their order (a part of a row, a late event, a TRUNCATE, a value that does
not fit) and a table that is large or has other rules are left to Spark, which looks at everything: see task.Left.
"""
