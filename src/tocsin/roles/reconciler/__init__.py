"""The reconciler: an independent look at whether history has all that was due.

It reads index, states and views, tells what it misses, and repairs nothing: what is not there was lost by a defect or
by hand, and a person decides what becomes of it.
"""
