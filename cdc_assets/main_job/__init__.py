"""What `cdc up` does once the stack stands: carry everything to silver and backup, and show that it is there."""
