"""From loop-level kernels to CUDA kernels that can be launched: the interface that the runtime builds on.

    compile_kernels(kernels, numerics, target) -> [CudaKernel]      in order; equal kernels are one object

A `CudaKernel` is a kernel's code for one target, known by its content (canonical text, numerics, target, versions, the
emitter's own source), and kept in memory and on disk as the CPU's objects are.

    .kernel          the loop-level `Kernel`
    .source          readable `numba.cuda` Python source (also in `linecache`)
    .entry           the name of the function in PTX and cubin
    .ptx, .cubin     what the toolchain made of it; empty in the simulator
    .function        in the simulator the callable, `function[grid, block](*arguments)`; else `None`
    .signature       the order and the types of the arguments
    .launch(slots)   -> Geometry(grid, block, shared_bytes): one-dimensional, shared memory is static (so 0 is asked
                     for). `grid` is 0 where there is nothing to do: then nothing may be launched.
    .scalars(slots, params) -> the arguments after the pointers, as NumPy scalars of exactly their C types

The binary interface: one plain pointer per buffer that is not "local", in the order of `Kernel.buffers` (so
`Launch.operands` in order); then every slot as int64; then every param. In memory a bool is a byte, 0 or 1, and half
types are their 16 bits. Of params a bool is passed as uint8 and a half type as the float32 of its value; `scalars` does
that. "in" buffers may overlap one another, a buffer that is written overlaps no other. A kernel keeps no state, works
for any grid and any block of a power of two up to `Target.threads`, but is only ever the same to the bit for the same
geometry: results repeat because `launch` depends on the slots alone.

In the simulator arguments are flat NumPy arrays in memory form: `memory_view(array)` gives that of an ordinary array.
`simulate(kernel, arrays, slots, params)` does a whole launch.

Without the extra, or where numba-cuda cannot work, `toolchain.ToolchainError` says in one sentence what is missing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from jitgrad.ir.dtypes import DType
from jitgrad.ir.scalar import Number

from ..cache import COUNTERS, disk_cache
from ..loops import printer
from ..loops.ir import Kernel
from . import toolchain
from .mapping import Geometry, Mapping, map_kernel
from .memory import PARAM_FORM, memory_view
from .source import kernel_source
from .target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a kernel takes: pointers to `buffers`, `slots` times int64, then `params`."""

    buffers: tuple[DType, ...]
    slots: int
    params: tuple[DType, ...]


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel compiled for one target; see the module's text."""

    key: str
    kernel: Kernel
    target: Target
    source: str
    entry: str
    ptx: str
    cubin: bytes
    function: Callable[..., Any] | None
    mapping: Mapping = field(repr=False)

    @property
    def signature(self) -> Signature:
        """The arguments in order."""
        buffers = tuple(b.dtype for b in self.kernel.buffers if b.role != "local")
        return Signature(buffers, self.kernel.slots, self.kernel.params)

    def launch(self, slots: Sequence[int]) -> Geometry:
        """Blocks and threads for these slots."""
        return self.mapping.geometry(slots, self.target)

    def scalars(self, slots: Sequence[int], params: Sequence[Number]) -> list[Any]:
        """The arguments that follow the pointers."""
        numbers: list[Any] = [np.int64(s) for s in slots]
        for dtype, value in zip(self.kernel.params, params, strict=True):
            rounded = np.asarray(value, dtype.np)
            numbers.append(rounded.astype(PARAM_FORM.get(dtype, dtype.np))[()])
        return numbers

    def llvm_ir(self) -> str:
        """What dumps show under "llvm": the source, which is this backend's intermediate form."""
        return self.source

    def assembly(self) -> str:
        """What dumps show under "assembly": the PTX."""
        return self.ptx


def simulate(kernel: CudaKernel, arrays: Sequence[Array], slots: Sequence[int], params: Sequence[Number] = ()) -> None:
    """Run a kernel of the simulator on contiguous NumPy arrays, one per buffer that is not local."""
    geometry = kernel.launch(slots)
    if geometry.grid == 0:
        return
    assert kernel.function is not None
    views = [memory_view(a) for a in arrays]
    toolchain.simulate(kernel.function, geometry.grid, geometry.block, [*views, *kernel.scalars(slots, params)])


def kernel_key(kernel: Kernel, numerics: str, target: Target) -> str:
    """The content hash under which a kernel is known."""
    versions = "simulator" if target.simulated else toolchain.versions()
    built_for = f"{target.architecture} {target.threads}"  # the grid is no part of the code
    return _digest(printer.canonical_text(kernel), numerics, built_for, versions, _emitter_digest())


@functools.cache
def _emitter_digest() -> str:
    """The emitter's own version: a digest of its source, so that no entry outlives a change of it."""
    codegen = Path(__file__).parent.parent
    sources = sorted(path for part in ("cuda", "loops", "mathlib") for path in (codegen / part).glob("*.py"))
    return _digest(*(path.read_text("utf-8") for path in sources))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class KernelTable:
    """The CUDA kernels of this process, by content. Safe from several threads, and across fork."""

    def __init__(self) -> None:
        self._kernels: dict[str, CudaKernel] = {}
        self._by_identity: dict[tuple[Kernel, str, Target], CudaKernel] = {}
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            release = self._lock.release
            os.register_at_fork(before=self._lock.acquire, after_in_parent=release, after_in_child=release)

    def kernels(self, kernels: Sequence[Kernel], numerics: str, target: Target) -> list[CudaKernel]:
        """The compiled form of each kernel, in order."""
        with self._lock:
            return [self._one(k, numerics, target) for k in kernels]

    def _one(self, kernel: Kernel, numerics: str, target: Target) -> CudaKernel:
        identity = (kernel, numerics, target)
        found = self._by_identity.get(identity)
        if found is None:
            key = kernel_key(kernel, numerics, target)
            found = self._kernels.get(key)
        else:
            key = found.key
        if found is not None:
            COUNTERS.memory_hits += 1
            found = found if found.target == target else replace(found, target=target)
        else:
            found = self._kernels[key] = self._make(key, kernel, numerics, target)
        self._by_identity[identity] = found
        return found

    def _make(self, key: str, kernel: Kernel, numerics: str, target: Target) -> CudaKernel:
        mapping = map_kernel(kernel, numerics == "strict")
        name = f"kernel_{key[:12]}"
        source = kernel_source(kernel, mapping, target, name, numerics == "strict")
        if target.simulated:
            COUNTERS.compiled += 1
            return CudaKernel(key, kernel, target, source, name, "", b"", toolchain.simulated(source, name), mapping)
        entry = disk_cache().read("cuda-" + key)
        if entry is None:
            COUNTERS.compiled += 1
            types = [*(b.dtype for b in kernel.buffers if b.role != "local")], kernel.slots, kernel.params
            code = toolchain.compile_source(source, name, types, target.capability, target.threads)
            disk_cache().write("cuda-" + key, _packed(code.ptx, code.cubin))
            return CudaKernel(key, kernel, target, source, name, code.ptx, code.cubin, None, mapping)
        COUNTERS.disk_hits += 1
        ptx, cubin = _unpacked(entry)
        return CudaKernel(key, kernel, target, source, name, ptx, cubin, None, mapping)


def _packed(ptx: str, cubin: bytes) -> bytes:
    """One block: a line that gives the PTX's length, the PTX, the cubin."""
    text = ptx.encode()
    return json.dumps({"ptx": len(text)}).encode() + b"\n" + text + cubin


def _unpacked(entry: bytes) -> tuple[str, bytes]:
    head, _, rest = entry.partition(b"\n")
    border = json.loads(head)["ptx"]
    return rest[:border].decode(), rest[border:]


TABLE: Final = KernelTable()


def compile_kernels(kernels: Sequence[Kernel], numerics: str, target: Target) -> list[CudaKernel]:
    """The compiled form of each kernel, in order, for `target`; `numerics` as in `CompileOptions`."""
    return TABLE.kernels(kernels, numerics, target)
