"""Pure values and rules of scheduling.

Nothing in this room reads a clock, draws a random number, logs, or does I/O, and pydantic does not enter:
time, identity and chance arrive as arguments, so every decision can be replayed.
"""
