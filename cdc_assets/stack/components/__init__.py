"""One file per component: its command, its data, and the probe that proves that it does its work."""
