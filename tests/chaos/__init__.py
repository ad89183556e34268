"""Real processes on several brokers and stores, faults, and a checker of what came of it, in the style of Chronos.

``python -m tests.chaos`` (``make chaos``) runs the full form in parts, ``test_short.py`` the short one. ``checker.py``
judges a ``History`` and is pure; everything else here makes such histories, or draws them.
"""
