"""`python -m cdc_assets.cli`, as the launcher starts it."""

from cdc_assets.cli.cdc_command import main

main()
