"""The demonstration: a thousand jobs due in one second, on a system made for it, and what became of each.

What must not enter: a figure that was not measured in the very run, or a way in that users do not have.
"""
