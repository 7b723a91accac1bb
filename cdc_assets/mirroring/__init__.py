"""Watches MirrorMaker 2, which skips what retention removed and goes on at a recreated topic without a word, and repairs it."""
