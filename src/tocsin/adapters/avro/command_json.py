"""Commands as JSON: what a service or a person may write to the command log without any Avro library.

A record whose first byte is ``{`` is JSON, with the field names of the ``JobCommand`` schema; the definition is what
the REST door takes. Nothing is checked here but the types of the fields around it.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tocsin.domain.commands import Command
from tocsin.domain.errors import Undecodable
from tocsin.domain.fields import with_whole_integers

COMMAND_BYTES_MAX: Final = 1_048_576
_TYPES: Final[dict[str, type]] = {
    "kind": str,
    "command_id": str,
    "job_id": str,
    "tenant_id": str,
    "reply_partition": int,
    "definition": dict,
    "if_version": int,
    "reason": str,
    "forwarded_from": str,
    "zone_data": str,
    "until": str,
    "execution_id": str,
    "attempts_before": int,
    "redrives_before": int,
    "not_before": str,
}


def command_from_json(value: bytes) -> Command:
    """Read a command.

    Raises:
        Undecodable: it is not JSON, lacks its kind, or has a field that is unknown or of the wrong type.
    """
    if len(value) > COMMAND_BYTES_MAX:
        raise Undecodable(f"is larger than {COMMAND_BYTES_MAX} bytes")
    try:
        record: Any = with_whole_integers(value, orjson.loads(value))
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"begins as JSON does, but is none: {error}") from error
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise Undecodable('is JSON without a kind; give an object such as {"kind": "create", "definition": {…}}')
    for name, found in record.items():
        wanted = _TYPES.get(name)
        if wanted is None:
            raise Undecodable(f"has the unknown field {name[:64]!r}; known: {', '.join(_TYPES)}")
        if found is not None and (not isinstance(found, wanted) or isinstance(found, bool)):
            raise Undecodable(f"has a {name} that is no {wanted.__name__}")
        if isinstance(found, int) and not -(2**63) <= found < 2**63:
            raise Undecodable(f"has a {name} beyond 64 bits")
    return Command(**record)
