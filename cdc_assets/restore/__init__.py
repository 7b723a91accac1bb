"""What the backup holds, made whole again: the lake's bronze, from which the ordinary jobs make the rest."""
