"""From settings to the store's address and bounds, for every role that uses it."""

from __future__ import annotations

from tocsin.adapters.cassandra.batches import BatchBounds
from tocsin.adapters.cassandra.page_sizes import PageBounds
from tocsin.adapters.cassandra.schedule_store import StoreBounds
from tocsin.adapters.cassandra.session import StoreAddress
from tocsin.config import Settings


def store_address(settings: Settings) -> StoreAddress:
    """Return where the store is."""
    c = settings.cassandra
    return StoreAddress(
        contact_points=tuple(c.contact_points),
        port=c.port,
        keyspace=c.keyspace,
        local_datacenter=c.local_datacenter,
        request_timeout_s=c.request_timeout_s,
        username=c.username,
        password=None if c.password is None else c.password.get_secret_value(),
    )


def batch_bounds(settings: Settings) -> BatchBounds:
    """Return how much goes into one batch."""
    c = settings.cassandra
    return BatchBounds(c.batch_rows_max, c.mixed_batch_rows_max, c.batch_bytes_max)


def store_bounds(settings: Settings) -> StoreBounds:
    """Return the bounds of an owner's store."""
    c = settings.cassandra
    pages = PageBounds(c.page_rows_max, c.page_bytes_max, c.pages_waiting_bytes_max)
    return StoreBounds(batch_bounds(settings), c.requests_in_flight_max, pages)
