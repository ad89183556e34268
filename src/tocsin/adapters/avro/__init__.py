"""Records as Avro, in single-object encoding (``C3 01``, fingerprint, body). No I/O but reading the shipped schemas."""

from tocsin.adapters.avro.codec import AvroCodec

__all__ = ["AvroCodec"]
