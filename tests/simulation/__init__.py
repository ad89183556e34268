"""The system in one process under one seed: the real engine, loops, takeover and codec on a simulated world.

The world (log, store, clocks, groups, processes) is made to behave as badly as the real ones may, by a plan that is
drawn from the seed. Beside it runs an oracle that knows nothing of the engine: it reads what was committed, and works
out from the commands alone what should have been.

Here: ``broker`` and ``groups`` (the log), ``store``, ``clocks``, the ports on them (``trigger_ports``,
``worker_ports``), ``nodes`` and ``world`` (processes that turn, stop, freeze and die), ``plan`` (what happens, from the
seed), ``zones`` (other zone data), ``oracle``, ``ends`` and ``rest`` (what must hold), ``story`` (a replay),
``minimise``, ``mutants``, and ``runner`` (many seeds; the command line).
"""
