"""Fusion: from a graph to steps, each one kernel, one matrix product or one call of the host."""

from __future__ import annotations

from .groups import Group, Level, Template
from .program import ControlStep, HostStep, KernelStep, ProductStep, Program, Step, TileStep, fuse
from .roots import Read, Root

__all__ = [
    "ControlStep", "Group", "HostStep", "KernelStep", "Level", "ProductStep", "Program", "Read", "Root", "Step",
    "Template", "TileStep", "fuse",
]  # fmt: skip
