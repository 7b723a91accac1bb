"""Makes the Python environment on a bare machine. Standard library only: it runs before anything is installed."""
