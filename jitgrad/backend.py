"""The one place where code generation (and with it Numba and llvmlite) is loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jitgrad.ir.graph import Graph

Observer = Callable[[str, Any], None]


@dataclass
class CompileCounters:
    """What this process has compiled so far."""

    graphs: int = 0
    kernels: int = 0


counters = CompileCounters()


def load() -> Any:
    """The code generator, with its driver ready; loads Numba, llvmlite and the rest at the first call."""
    from jitgrad.codegen import compile as codegen
    from jitgrad.codegen.cpu.driver import load_driver

    load_driver()
    return codegen


def load_if_numba_is() -> None:
    """Load the code generator now where that is cheap, because Numba is there already."""
    if "numba" in sys.modules:
        load()


def _graphs_for(observer: Observer) -> Observer:
    """`observer` for the stages that are graphs."""

    def see(stage: str, what: Any) -> None:
        if isinstance(what, Graph):
            observer(stage, what)

    return see


def compile_graph(
    graph: Graph, *, name: str = "graph", aliases: Mapping[int, int] | None = None, observer: Observer | None = None
) -> Any:
    """The executable of a graph: called with arrays, gives fresh arrays (see `jitgrad.codegen.compile_graph`)."""
    compile_ = load().compile_graph
    if observer is None:
        executable = compile_(graph, name=name, aliases=aliases or {})
    else:
        executable = compile_(graph, name=name, aliases=aliases or {}, observer=_graphs_for(observer))
        for stage, text in executable.dump().items():
            if stage != "graph":  # seen already, as "prepared"
                observer(stage, text)
    counters.graphs += 1
    counters.kernels += executable.stats.compiled
    return executable
