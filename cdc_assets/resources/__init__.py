"""The outside world behind small methods; vendor exceptions stop here."""
