"""A source's topics carried on and on by Structured Streaming: to bronze, silver and histories, with the jobs' own commits.

    stream_spec   what the stream is of
    job           the query: its trigger, its checkpoint, its end
    checkpoint    up to which offsets each batch goes
    carrying      one batch: ranges to bronze, then each table that has news

The checkpoint is a hint: which offsets a batch goes up to. Where a batch begins, bronze's log says.
"""
