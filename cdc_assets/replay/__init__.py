"""A table made again from bronze: shown, swapped in, taken back."""
