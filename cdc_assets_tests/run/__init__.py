"""What `./cdc test` does: plays the suite in parts side by side, on one ground of servers, and measures it."""
