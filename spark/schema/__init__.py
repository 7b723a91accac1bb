"""Schema evolution of a silver table: what differs, what the policy says about it, how it is done, what is recorded."""
