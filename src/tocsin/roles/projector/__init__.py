"""The projector: files what the log says into the views that people read.

It only copies. Where it reads a record twice, or two records in another order, the views come out the same, because
every write carries a logical timestamp. ``jobs`` and ``schedule_index`` are their owners' and never written here.
"""
