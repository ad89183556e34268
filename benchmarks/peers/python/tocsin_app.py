"""The handler of tocsin's own worker, as the peers' are."""

from __future__ import annotations

from benchmarks.peers.python.noted import note

import tocsin

app = tocsin.Worker(pool="peers")


@app.handler("note")
async def noted(number: int, context: tocsin.Context) -> None:
    """Do nothing but leave evidence."""
    note(number, context.redelivered)
