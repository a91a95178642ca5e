"""Who was there: ranks, nodes, GPUs, parallel grid, and which log belongs to whom.

Every identity carries the source it was taken from. Names of one machine are folded to its short name. A rank that
nothing was collected from is in the roster with ``collected`` false; that is not the same as silent.
"""
