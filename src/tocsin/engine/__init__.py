"""What decides: the owner's step and its data structures, and the offset window of the worker.

Everything here is synchronous and pure: no I/O, no clock (``now`` is an argument), no thread, no random, no logging.
So the heart of the system is tested by simulation, and any failure replays from its seed.
"""
