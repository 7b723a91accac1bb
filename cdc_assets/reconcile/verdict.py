"""What a comparison can end with, of a table or of a history."""

EQUAL, DIFFERENT, NOT_COMPARED = "equal", "different", "not compared"
