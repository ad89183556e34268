"""Port: posting to webhooks. Nothing is tried again here; whoever posts decides that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Post(NamedTuple):
    """One attempt to post something.

    Attributes:
        ref: whatever identifies it to the caller.
        address: whose webhook, by the name that it was set up under.
        id: of what is posted; the same when it is posted again.
        body: the bytes.
        headers: beside those of the signature.
    """

    ref: Any
    address: str
    id: str
    body: bytes
    headers: Mapping[str, str]


class PostEnd(NamedTuple):
    """How a post ended.

    Attributes:
        ref: of the post.
        problem: None: it was taken; else one line for a person.
        status: of the answer, where there was one.
        retry_after_s: what the answer asked for, seconds.
    """

    ref: Any
    problem: str | None = None
    status: int | None = None
    retry_after_s: float | None = None


class WebhookPoster(Protocol):
    """Posts at the same time what it is given; never blocks."""

    def start(self, posts: Sequence[Post]) -> None: ...

    def ended(self) -> list[PostEnd]:
        """Return what has ended since; each post ends once."""
        ...

    def close(self) -> None:
        """Break off what is under way."""
        ...
