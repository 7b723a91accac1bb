"""Takes a whole source away: `cdc remove`.

First goes what costs the user's database: the connector, then its slot, publication and tables. The registry file is put aside
next, so that nothing makes them again. Data goes last, and only by word.

Each step looks at what is there and removes it. So a step may be repeated, and a command that was killed is given again.
"""
