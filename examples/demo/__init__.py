"""`make demo`: a shop in two minutes, `python -m examples.demo --help`.

Orders flow through a group of consumers and through Spark, one member dies and comes back, and at the end it
is counted that nothing was lost.
"""
