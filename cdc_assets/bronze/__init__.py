"""What bronze reads next, and the appends that read it."""
