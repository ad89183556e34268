"""The committed states of shards, for those who only look at them: all of them, or an error."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.domain.errors import Unavailable
from tocsin.engine.restore import RestoreCodec, restore
from tocsin.engine.shard_state import ShardState
from tocsin.ports.takeover import Takeover


def committed_states(takeover: Takeover, shards: Sequence[int], codec: RestoreCodec) -> dict[int, ShardState]:
    """Return the committed states; shards that never ran have none.

    Raises:
        StateGap, Undecodable: a state cannot be restored.
        Unavailable: a log of states cannot be read to its end.
    """
    read = takeover.read_states(shards)
    hidden = sorted(set(shards) - set(read))
    if hidden:
        raise Unavailable("kafka", f"an open transaction hides the end of the states of shards {hidden}; try again")
    states = {shard: restore(shard, records, codec) for shard, records in read.items()}
    return {shard: state for shard, state in states.items() if state is not None}
