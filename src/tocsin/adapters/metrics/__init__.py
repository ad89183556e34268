"""Counts as Prometheus metrics. Knows no other adapter."""

from tocsin.adapters.metrics.prometheus import PrometheusMeter, serve_metrics

__all__ = ["PrometheusMeter", "serve_metrics"]
