"""`cdc bench`: how long bronze and silver take on the embedded stack, beside the figures that they are to reach.

stack        a stack of its own in a scratch folder, or the one that runs
feed         a topic with generated events, and what its table must hold in the end
carry        bronze and silver of a source, as the assets work them
measurement  the topics and tables of one measurement
scenarios    what is measured, with the figure that each is to reach
figures      medians, spread and verdicts
profile      what a step asks of Spark
"""
