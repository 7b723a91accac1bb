"""Records that silver could not fold: reading them, folding them after all, giving them up."""
