"""What went red or green, and runs that failed: told once to each channel, with the command that mends it."""
