"""Compiled graphs on disk: the driver's code of a plan, found again by the text of the graph.

A process that meets a graph which an earlier one has compiled skips passes, fusion, lowering, planning and emission: it
reads the code and binds the addresses in it. The key is the graph itself, with everything else that decides the result:
options, the machine, versions, and when jitgrad's sources were changed. So only graphs of jitgrad's own ops are kept.
What looks at the program of a stored graph (a dump, a joint call) has it compiled then.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.config import config
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.fields import may_hold_graphs
from jitgrad.ir.graph import Graph, Node
from jitgrad.ir.parser import parse
from jitgrad.ir.printer import canonical_text, to_text
from jitgrad.ir.verify import sub_graphs

from .cache import COUNTERS, disk_cache, source_stamp
from .cpu import blas, driver, target
from .cpu.addresses import BLAS, GEMM, INNER, KERNEL, SWITCH, Name
from .cpu.kernels import TABLE
from .encode import HostOperand, HostSegment, NativeSegment, Segment
from .executable import Array, Executable, Frame
from .options import CompileOptions
from .stats import Stats

Whole: TypeAlias = Callable[[], Executable]
_NUMBERS: Final = ("kernels", "bytes", "flops", "arena_bytes", "host_steps")
_FAULTS: Final = (JitgradError, KeyError, IndexError, TypeError, ValueError)  # what an entry that doesn't fit raises


def key_of(graph: Graph, aliases: Mapping[int, int], options: CompileOptions) -> str | None:
    """The name of the graph's entry; None if it is not to be kept."""
    if disk_cache().folder is None or not config.cache_graphs or config.verify or not _is_own(graph):
        return None
    parts = (canonical_text(graph), repr(sorted(aliases.items())), repr(options), _surroundings())
    return "graph-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_own(graph: Graph) -> bool:
    """Whether all rules that the graph goes by are jitgrad's."""
    ops = dict.fromkeys(node.op for node in graph.nodes)
    if not all(op.__class__.__module__.startswith("jitgrad.") for op in ops):
        return False
    holders = [op for op in ops if may_hold_graphs(op.__class__)]
    return all(_is_own(inner) for op in holders for field in op.attributes().values() for inner in sub_graphs(field))


@functools.cache
def _surroundings() -> str:
    """The machine, versions and sources."""
    return repr((sys.version, np.__version__, target.host().fingerprint, source_stamp()))


# Writing


@dataclass(slots=True)
class _Writer:
    """Collects what an entry is made of: arrays, ops of the host, places of kernels."""

    graph: Graph
    arrays: list[bytes] = field(default_factory=list)
    size: int = 0
    hosts: Builder = field(default_factory=Builder)
    kernels: dict[Name, int] = field(default_factory=dict)
    lines: dict[Any, int] = field(init=False)  # of each place in the user's program, the first node

    def __post_init__(self) -> None:
        self.lines = {node.location: i for i, node in reversed(list(enumerate(self.graph.nodes)))}

    def array(self, array: Array) -> Any:
        """Where the array is behind the header."""
        at, data = self.size, array.tobytes()
        self.arrays.append(data)
        self.size += len(data)
        return at, dtypes.FROM_NUMPY[array.dtype].name, array.shape

    def segment(self, segment: Segment) -> dict[str, Any]:
        """A segment for the header."""
        if isinstance(segment, HostSegment):
            self.hosts.emit(segment.op, *[self.hosts.input(v.type) for v in segment.node.operands])
            places = [[(o.region, o.offset) for o in part] for part in (segment.operands, segment.results)]
            return {"places": places, "line": self.lines.get(segment.node.location)}
        return {
            "code": self.array(segment.code),
            "names": [(cell, self.name(name)) for cell, name in segment.names],
            "steps": segment.steps,
            "is_shared": segment.is_shared,
            "inner": [self.segment(s) for s in segment.inner],
        }

    def name(self, name: Name) -> Name:
        """The name of an address, kernels by their number."""
        return (KERNEL, str(self.kernels.setdefault(name, len(self.kernels)))) if name[0] == KERNEL else name


def store(key: str, graph: Graph, executable: Executable) -> None:
    """Keep an executable, if another process can bind it."""
    if not all(map(_can_be_bound, executable._segments)):
        return
    writer, frame = _Writer(graph), executable.frame
    segments = [writer.segment(s) for s in executable._segments]
    hosts = writer.hosts.build([v for node in writer.hosts.nodes for v in node.results])
    header = {
        "segments": segments,
        "hosts": to_text(hosts, locations=False),
        "constants": [writer.array(x) for x in frame.constants],
        "arena": frame.arena_bytes,
        "kernels": [name[1:] for name in writer.kernels],
        "stats": {name: getattr(executable.stats, name) for name in _NUMBERS},
    }
    text = json.dumps(header).encode()
    disk_cache().write(key, b"".join([len(text).to_bytes(8, "little"), text, *writer.arrays]))


def _can_be_bound(segment: Segment) -> bool:
    """All but calls of another library's settings, whose values are this process's."""
    if isinstance(segment, HostSegment):
        return True
    return all(name[0] != SWITCH for _, name in segment.names) and all(map(_can_be_bound, segment.inner))


# Reading


@dataclass(frozen=True, slots=True)
class _Bound:
    """Makes segments out of what an entry says of them."""

    blob: memoryview
    kernels: Sequence[int]
    graph: Graph
    hosts: Iterator[Node]

    def array(self, place: Any) -> Array:
        """A copy of an array behind the header."""
        at, name, shape = place
        dtype, count = dtypes.by_name(name).np, math.prod(shape)
        return np.frombuffer(self.blob, dtype, count, at).reshape(shape).copy()

    def segment(self, written: Mapping[str, Any]) -> Segment:
        """A segment whose addresses are this process's."""
        if "places" in written:
            return self._host(written)
        code, inner = self.array(written["code"]), tuple(self._native(s) for s in written["inner"])
        for cell, name in written["names"]:
            code[cell] = self._address(tuple(name), inner)
        return NativeSegment(code, code.ctypes.data, written["steps"], written["is_shared"], inner)

    def _native(self, written: Mapping[str, Any]) -> NativeSegment:
        segment = self.segment(written)
        if not isinstance(segment, NativeSegment):
            raise ValueError("a step of the host in native code")
        return segment

    def _address(self, name: Name, inner: Sequence[NativeSegment]) -> int:
        match name:
            case (kind, number) if kind == KERNEL:
                return self.kernels[int(number)]
            case (kind, number) if kind == INNER:
                return inner[int(number)].address
            case (kind,) if kind == GEMM:
                return driver.gemm_kernel()
            case (kind, dtype) if kind == BLAS:
                return blas.gemm_address(dtypes.by_name(dtype))
        raise ValueError(f"no address is called {name}")

    def _host(self, written: Mapping[str, Any]) -> HostSegment:
        node, line = next(self.hosts), written["line"]
        node.location = None if line is None else self.graph.nodes[line].location
        operands, results = (
            tuple(
                HostOperand(region, offset, v.type.shape, v.type.dtype.np, v.type.nbytes)
                for (region, offset), v in zip(places, values, strict=True)
            )
            for places, values in zip(written["places"], (node.operands, node.results), strict=True)
        )
        return HostSegment(node.op, operands, results, node)


def load(key: str, graph: Graph, name: str, aliases: Mapping[int, int], whole: Whole) -> Executable | None:
    """The executable of entry `key`, which is the graph's; `whole` compiles one with its program."""
    start = time.perf_counter()
    entry = disk_cache().read(key)
    if entry is None:
        return None
    try:
        border = 8 + int.from_bytes(entry[:8], "little")
        header, blob = json.loads(entry[8:border]), memoryview(entry)[border:]
        kernels = [TABLE.located(*place) for place in header["kernels"]]
        bound = _Bound(blob, kernels, graph, iter(parse(header["hosts"]).nodes))
        segments = [bound.segment(s) for s in header["segments"]]
        constants = tuple(bound.array(x) for x in header["constants"])
        stats = Stats(**header["stats"], reused=len(kernels))
    except _FAULTS:
        return None
    COUNTERS.disk_hits += len(kernels)
    stats.stages_ms["load"] = 1e3 * (time.perf_counter() - start)
    types = [tuple(v.type for v in values) for values in (graph.inputs, graph.outputs)]
    frame = Frame(types[0], types[1], aliases, constants, header["arena"])
    return Executable(name, frame, segments, (), stats, whole)
