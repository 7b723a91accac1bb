"""What a table is for the jobs: its columns, the form of its records, and the specs made of them."""
