"""What a service's own Python functions see of tocsin: how they are registered, called, and how their end is judged.

Nothing here knows brokers, stores or processes; the adapters call it, and so does ``tocsin.testing``. Users import the
names from ``tocsin`` itself.
"""
