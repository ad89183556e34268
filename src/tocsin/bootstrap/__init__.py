"""The only rooms that choose adapters and read settings: one module a role, each ending in a ``run_*`` function."""
