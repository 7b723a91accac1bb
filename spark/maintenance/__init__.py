"""Keeping one Delta table small and fast, beside its writers and never in their way.

    needs        which old versions somebody still reads, and why
    log_files    what the table's log folder holds
    look         figures of a table: small files, gone rows, length of the log
    rewriting    small files made one, gone rows taken out: a commit without changes of data
    expiry       commits and data files that no version to be kept needs: found, and removed
    maintain     all steps for one table, in order; what each did, or why it did not

Nothing here holds a table's lease while it reads or writes data: a writer waits for a commit at most. What a writer has changed
meanwhile is given up until the next time.
"""
