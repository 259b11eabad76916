"""Dumps: the text of every stage from a traced graph to machine code, in a folder."""

from .writer import DumpWriter, observer_for

__all__ = ["DumpWriter", "observer_for"]
