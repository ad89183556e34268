"""The demonstration: jobs of every kind, a thousand of them in one second, a killed worker, and what became of all.

What must not enter: a figure that was not measured in the very run, or a way in that users do not have.
"""
