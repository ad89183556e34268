"""The REST door: turns requests into commands, waits for their outcomes, and reads the views.

Nothing is decided here: whether a job is created or deleted is its owner's word. pydantic models document the API
and never validate; ``domain.definitions.parse`` does, as at every other door.
"""
