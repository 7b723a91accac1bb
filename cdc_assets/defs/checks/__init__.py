"""Asset checks: what each link promises, compared with what is there."""
