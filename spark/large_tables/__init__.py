"""Changes into a large table, in a task: what is gone is marked in deletion vectors, what is new is a file.

    matches       which rows of which files the changes are about
    vector_merge  the commit: vectors, the file of new rows, small files made one with it

A small table is merged by delta-rs (spark.small_tables.merge), which writes each file anew that holds a changed row.
"""
