"""Changes into a large table, in a task: what is gone is marked in deletion vectors, what is new is a file.

    matches       which rows of which files the changes are about
    vector_merge  the commit: vectors, the file of new rows, small files made one with it

A table without vectors has each file written anew that holds a changed row: by the same code, or from a size on by delta-rs
(spark.small_tables.merge).
"""
