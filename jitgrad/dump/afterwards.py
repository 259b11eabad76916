"""Dumps and timings of what has been compiled already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jitgrad.codegen.compile import Observer, prepare_for
from jitgrad.codegen.executable import Executable
from jitgrad.codegen.options import CompileOptions
from jitgrad.codegen.timing import Timing, time_steps
from jitgrad.ir.errors import ArgumentError, ArgumentTypeError
from jitgrad.ir.graph import Graph
from jitgrad.ir.types import CPU, Device

from ..compiler.key import call_key, flatten_call
from ..errors import located
from .content import Compilation
from .html_page import page_html
from .machine_code import EXCLUSIVE, kernel_texts
from .notebook import Page
from .writer import DumpWriter


@dataclass(frozen=True)
class _Compiled:
    """A compilation found in something: its name, the graph as it was captured, and the executable, if there is one."""

    name: str
    graph: Graph
    executable: Any = None
    numerics: str = "default"

    def prepare(self, observer: Observer) -> None:
        """Let `observer` see what the passes make of the graph, as it did or would have while compiling."""
        device = CPU if isinstance(self.executable, Executable) else Device("cuda")
        prepare_for(device, self.graph, CompileOptions(numerics=self.numerics), observer)


def write_all(what: Any, folder: Any, measure: bool, sizes: Mapping[str, int] | None = None) -> list[Path]:
    """Dump every compilation of `what`; the folders."""
    folders = []
    for found in _compilations(what, sizes):
        writer = DumpWriter.for_compilation(folder, found.name)
        if writer is None:
            continue
        writer("captured" if found.executable is None else "traced", found.graph)
        if found.executable is not None:
            found.prepare(writer)
        timing = _time(found.executable) if measure else None
        writer.finish(found.executable, timing)
        folders.append(writer.folder)
    return folders


def page_of(what: Any, measure: bool, sizes: Mapping[str, int] | None) -> Page:
    """See `dump.page`."""
    *_, found = _compilations(what, sizes)
    stages = [("captured" if found.executable is None else "traced", found.graph)]
    if found.executable is None:
        return Page(page_html(Compilation(found.name, stages)))
    found.prepare(lambda name, graph: stages.append((name, graph)))
    timing = _time(found.executable) if measure else None
    with EXCLUSIVE:
        code = kernel_texts(found.executable)
        return Page(page_html(Compilation(found.name, stages, found.executable, timing), code))


def newest_graph(what: Any) -> Graph:
    """See `dump.graph_of`."""
    *_, found = _compilations(what)
    return found.graph


def measure_all(what: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """See `dump.measure`."""
    function = _compiled_function(what)
    if function is None and isinstance(what, Executable):
        return time_steps(what, args[0] if args else None)
    if function is None or not (args or kwargs):
        return [time_steps(_on_host(c.executable)) for c in _compilations(what)]
    leaves, structure = flatten_call(args, kwargs)
    key = call_key(function._f, leaves, structure, function._numbers.of(structure))
    for entry in function._entries.get(key, ()):
        if hasattr(entry, "executable") and entry.guards.hold(leaves):
            return time_steps(_on_host(entry.executable), [source.fetch(leaves) for source in entry.sources])
    raise located(ArgumentError("measure: nothing is compiled for these arguments; call the function with them first"))


def _on_host(executable: Any) -> Executable:
    if not isinstance(executable, Executable):
        raise located(ArgumentTypeError("measure: only what was compiled for the CPU is timed step by step"))
    return executable


def _time(executable: Any) -> Timing | None:
    """None for what runs on a device, whose steps are not timed apart."""
    return time_steps(executable) if isinstance(executable, Executable) else None


def _compiled_function(what: Any) -> Any:
    """The compiled function that `what` is, or whose calls it goes through."""
    inner = getattr(what, "_compiled_call", None)
    what = what if inner is None else inner
    return what if hasattr(what, "_entries") and hasattr(what, "explain") else None


def _compilations(what: Any, sizes: Mapping[str, int] | None = None) -> Iterator[_Compiled]:
    function = _compiled_function(what)
    if function is not None:
        explained = function.explain()
        specialisations = explained.specialisations
        if not specialisations:
            raise located(ArgumentError(f"dump: nothing of {function!r} is compiled; call it first"))
        for spec in specialisations:
            yield _Compiled(function._name, spec.graph, spec.executable, explained.numerics)
    elif hasattr(what, "symbolic_graph"):
        yield _Compiled(what.name, what.graph(sizes), what.executable(sizes))
    elif isinstance(what, Graph):
        yield _Compiled("graph", what)
    elif hasattr(what, "plan") and hasattr(what, "kernels"):
        yield _Compiled(what.name, what.plan.program.graph, what)
    else:
        raise located(
            ArgumentTypeError(
                "dump: expected a compiled function or module, an exported program, an executable or a graph, not "
                f"{type(what).__name__}"
            )
        )
