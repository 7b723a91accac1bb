"""The lake's side of a comparison with the source at an exact cut of its log."""
