"""Where the lake's files are, and how they are read and written without Spark: a local disk, or a bucket of an object store.

place          what a path names
store_options  how the store is reached: for delta-rs, PyArrow and Spark, by the environment alone
folder         a table's folder: read, list, put, put if absent, delete
object_folder  the folder as a prefix in a bucket
bucket         what that needs of a store; S3's and GCS's are below it
object_lease   whose turn it is to write a table in an object store
"""
