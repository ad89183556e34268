"""All records in one codec."""

from __future__ import annotations

from tocsin.adapters.avro.executions import AvroExecutionCodec
from tocsin.adapters.avro.fleet import AvroFleetCodec
from tocsin.adapters.avro.jobs import AvroJobCodec
from tocsin.adapters.avro.state import AvroStateCodec


class AvroCodec(AvroJobCodec, AvroExecutionCodec, AvroStateCodec, AvroFleetCodec):
    """Fulfils ``ports.codec.RecordCodec`` with the shipped Avro schemas. Holds no state; may be shared by threads."""
