"""tocsin: cron at scale. See ARCHITECTURE.md for the floor plan."""

__version__ = "0.1.0"
