"""Bronze to history (SCD2): every version of every row."""
