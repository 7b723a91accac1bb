"""What the steps do differently for each kind of database."""
