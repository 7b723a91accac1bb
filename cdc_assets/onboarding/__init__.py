"""Takes tables into a running connector, and out of it: declared, verified, resumable steps.

    cdc onboard world public.mountain          incremental snapshot by signal (default)
    cdc onboard world public.mountain --route blocking | temporary
    cdc onboard world --resume | --rollback    after a crash at any step

Every route ends in the same state: the table is in the registry, in the publication, in the connector's list, its topic
is made and mirrored, and its rows are in the topic so that silver equals the source (docs/how-to/onboarding.md).
"""
