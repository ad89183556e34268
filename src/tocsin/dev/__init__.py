"""A whole tocsin on one machine, for trying out and for development: servers, tables, topics and all four roles.

What belongs here: starting, watching, restarting and ending processes, a receiver that shows what it is sent, and the
demonstration. What must not enter: anything that a role does, or that a system in production needs. Roles are started
as their operators start them, by the command line, and are told everything by their environment.
"""
