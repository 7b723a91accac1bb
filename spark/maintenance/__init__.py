"""Keeping one Delta table small and fast, beside its writers and never in their way.

    needs        which old versions somebody still reads, and why
    log_files    what the table's log folder holds
    look         figures of a table: small files, gone rows, length of the log
    rewriting    small files made one, gone rows taken out: a commit without changes of data
    old_windows  windows of a ledger that are older than they are to be kept
    old_records  records of a change log that are older than they are to be kept, and in the backup
    expiry       commits and data files that no version to be kept needs: found, and removed
    by_spark     what only Spark can write: its OPTIMIZE, a property
    maintain     all steps for one table, in order; what each did, or why it did not

But for Spark's OPTIMIZE nothing here holds a table's lease while it reads or writes data: a writer waits for a commit at most.
What a writer has changed meanwhile is begun again, and given up until the next time.
"""
