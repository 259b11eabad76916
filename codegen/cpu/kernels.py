"""From loop-level kernels to callable machine code.

A kernel is known by its content: canonical text, options, host and versions. What is not in memory is looked for on
disk; what is not there either is compiled, in LLVM modules of some kernels each. On disk a module is one entry, and
each of its kernels one small entry that names the module and the kernel's symbol in it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from ..cache import COUNTERS, disk_cache, source_stamp
from ..conv.target import TileTarget
from ..loops import printer
from ..loops.ir import Kernel
from ..loops.tile import TileKernel
from . import llvm_ir as ir
from . import shared, target
from .addresses import KERNEL, Address
from .code_maker import CodeMaker
from .emit import emit_kernel
from .options import EmitOptions
from .target import CompiledModule
from .threads import pool
from .tiles import emit_tiles

AnyKernel: TypeAlias = Kernel | TileKernel
KERNELS_IN_A_MODULE: Final = 8


@functools.cache
def default_options(numerics: str = "default") -> EmitOptions:
    """The options for this machine."""
    host = target.host()
    return EmitOptions(numerics, host.vector_bits, host.masked_vectors, host.scales)


@functools.cache
def tile_target(bits: int | None = None) -> TileTarget:
    """The registers of this machine, or of `bits` each."""
    host = target.host()
    return TileTarget(bits or host.vector_bits, host.vector_registers)


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """A kernel's machine code in this process.

    `compile_ms` is the time that the whole module it came with took; `from_cache` is "disk", or empty for a kernel
    compiled by this process.
    """

    key: str
    source: AnyKernel
    options: EmitOptions
    address: int
    symbol: str
    compile_ms: float
    from_cache: str

    def llvm_ir(self) -> str:
        """The LLVM text as emitted."""
        return str(self._module())

    def optimised_ir(self) -> str:
        """The LLVM text after LLVM's passes."""
        return self.optimised()[0]

    def assembly(self) -> str:
        """The machine code as text."""
        return self.optimised()[1]

    def optimised(self) -> tuple[str, str]:
        """The LLVM text after LLVM's passes, and the machine code as text."""
        return self.texts()[1:]

    def texts(self) -> tuple[str, str, str]:
        """The LLVM text as emitted, the same after LLVM's passes, and the machine code."""
        text = self.llvm_ir()
        return text, *target.optimise(text)

    def _module(self) -> ir.Module:
        module = target.new_module(self.symbol)
        _emit(module, self.symbol, self.source, self.options)
        return module


def _emit(module: ir.Module, symbol: str, kernel: AnyKernel, options: EmitOptions) -> None:
    if isinstance(kernel, TileKernel):
        emit_tiles(module, symbol, kernel, options)
    else:
        emit_kernel(module, symbol, kernel, options)


def kernel_key(kernel: AnyKernel, options: EmitOptions) -> str:
    """The content hash under which a kernel is known."""
    text = str(kernel) if isinstance(kernel, TileKernel) else printer.canonical_text(kernel)
    return _digest(text, repr(options), target.host().fingerprint, _emitter_digest())


@functools.cache
def _emitter_digest() -> str:
    """The emitter's own version: a digest of its source, so that no entry outlives a change of it."""
    codegen = Path(__file__).parent.parent
    parts = ("attention", "conv", "cpu", "cpu/llvm_ir", "loops", "mathlib")
    sources = sorted(path for part in parts for path in (codegen / part).glob("*.py"))
    return _digest(*(path.read_text("utf-8") for path in sources))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(slots=True)
class _Compilation:
    """Kernels on their way: `kernels` has each with its module and its name in there, by key.

    `keys` are those of all that was asked for.
    """

    options: EmitOptions
    keys: dict[AnyKernel, str] = field(default_factory=dict)
    maker: CodeMaker = field(default_factory=lambda: CodeMaker(pool.num_threads))
    kernels: dict[str, tuple[AnyKernel, str, str]] = field(default_factory=dict)
    start: float = field(default_factory=time.perf_counter)


class KernelTable:
    """The native kernels and modules of this process, by content. Safe from several threads, and across fork."""

    def __init__(self) -> None:
        self._kernels: dict[str, NativeKernel] = {}
        self._by_identity: dict[tuple[AnyKernel, EmitOptions], NativeKernel] = {}
        self._modules: dict[str, CompiledModule] = {}
        self._begun: dict[EmitOptions, _Compilation] = {}
        self._begun_modules: dict[str, CodeMaker] = {}
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            release = self._lock.release
            os.register_at_fork(before=self._lock.acquire, after_in_parent=release, after_in_child=self._forked)

    def _forked(self) -> None:
        """A child has none of the threads that compile."""
        self._begun.clear()
        self._begun_modules.clear()
        self._lock.release()

    def kernels(self, kernels: Sequence[AnyKernel], options: EmitOptions) -> list[NativeKernel]:
        """The native form of each kernel, in order."""
        found = [self._by_identity.get((k, options)) for k in kernels]
        native = [n for n in found if n is not None]
        if len(native) == len(found):  # equal kernels are made of the same expressions: no need to print them
            COUNTERS.memory_hits += len(found)
            return native
        with self._lock:
            known = self._begun[options].keys if options in self._begun else {}
            keys = [known.get(k) or kernel_key(k, options) for k in kernels]
            self._find_or_compile(dict(zip(keys, kernels)), options)
            self._by_identity.update(((k, options), self._kernels[key]) for k, key in zip(kernels, keys))
        return [self._kernels[key] for key in keys]

    def begin(self, kernels: Iterable[AnyKernel], options: EmitOptions) -> None:
        """Have kernels compiled by other threads, while the caller goes on to where it asks for them.

        Those that nobody asks for are finished with the next ones that are compiled.
        """
        if pool.num_threads < 2:
            return
        with self._lock:
            begun = self._begun.get(options) or _Compilation(options)
            new = [k for k in dict.fromkeys(kernels) if k not in begun.keys and (k, options) not in self._by_identity]
            if not new:
                return
            begun.keys.update((k, kernel_key(k, options)) for k in new)
            named = {begun.keys[k]: k for k in new}
            known = self._kernels.keys() | begun.kernels.keys()
            missing = {key: k for key, k in named.items() if key not in known and not self._is_on_disk(key)}
            self._emit(missing, begun, at_once=True)
            self._begun[options] = begun

    def _is_on_disk(self, key: str) -> bool:
        return disk_cache().read("kernel-" + key) is not None

    def module(self, name: str, build: Callable[[ir.Module], None]) -> CompiledModule:
        """What `build`, a function of this package, adds to an empty module, compiled; known by `name`."""
        with self._lock:
            key = _module_key(name)
            found = self._modules.get(key) or self._load(key)
            if found is None:
                ((_, code),) = (self._begun_modules.pop(key, None) or _making(key, name, build)).finish()
                found = self._modules[key] = target.load_module(name, code)
                disk_cache().write(key, code)
            return found

    def begin_module(self, name: str, build: Callable[[ir.Module], None]) -> None:
        """Have a module compiled by another thread, if it isn't known, until `module` is asked for it."""
        with self._lock:
            key = _module_key(name)
            known = key in self._modules or key in self._begun_modules
            if pool.num_threads > 1 and not known and self._load(key) is None:
                self._begun_modules[key] = _making(key, name, build, at_once=True)

    def _find_or_compile(self, wanted: dict[str, AnyKernel], options: EmitOptions) -> None:
        missing: dict[str, AnyKernel] = {}
        for key, kernel in wanted.items():
            if key in self._kernels:
                COUNTERS.memory_hits += 1
            elif (found := self._read(key, kernel, options)) is not None:
                COUNTERS.disk_hits += 1
                self._kernels[key] = found
            else:
                missing[key] = kernel
        if missing:
            COUNTERS.compiled += len(missing)
            self._kernels.update(self._compile(missing, options))

    def _read(self, key: str, kernel: AnyKernel, options: EmitOptions) -> NativeKernel | None:
        """The kernel from disk."""
        start = time.perf_counter()
        entry = disk_cache().read("kernel-" + key)
        if entry is None:
            return None
        place = json.loads(entry)
        module = self._modules.get(place["module"]) or self._load(place["module"])
        if module is None:
            return None
        took = 1e3 * (time.perf_counter() - start)
        address = _address(module, place["symbol"])
        return NativeKernel(key, kernel, options, address, place["symbol"], took, "disk")

    def located(self, name: str, symbol: str) -> int:
        """Where a symbol of a module on disk starts in this process; `KeyError` if it isn't there any more."""
        with self._lock:
            module = self._modules.get(name) or self._load(name)
        if module is None:
            raise KeyError(name)
        return module.address(symbol)

    def _load(self, name: str) -> CompiledModule | None:
        entry = disk_cache().read(name)
        if entry is None:
            return None
        for needed in shared.needed_by(entry):
            if _module_key(needed) != name:  # an object names what it defines, too
                self.module(needed, functools.partial(shared.build, name=needed))
        module = self._modules[name] = target.load_module(name, entry)
        return module

    def _add_shared(self, name: str, maker: CodeMaker, at_once: bool) -> None:
        """Have a function that kernels share there, in front of the kernels that are added next."""
        key = _module_key(name)
        if key not in self._modules and key not in maker.names and self._load(key) is None:
            module = target.new_module(name)
            shared.build(module, name)
            maker.add(key, str(module), at_once)

    def _compile(self, missing: dict[str, AnyKernel], options: EmitOptions) -> dict[str, NativeKernel]:
        """All kernels of `missing`, in modules that go to disk too."""
        made = self._begun.pop(options, None) or _Compilation(options)
        self._emit({key: kernel for key, kernel in missing.items() if key not in made.kernels}, made)
        disk = disk_cache()
        for name, code in made.maker.finish():
            self._modules[name] = target.load_module(name, code)
            disk.write(name, code)
        took = 1e3 * (time.perf_counter() - made.start)
        found = {}
        for key, (kernel, name, symbol) in made.kernels.items():
            disk.write("kernel-" + key, json.dumps({"module": name, "symbol": symbol}).encode())
            address = _address(self._modules[name], symbol)
            found[key] = NativeKernel(key, kernel, options, address, symbol, took, "")
        return found

    def _emit(self, kernels: Mapping[str, AnyKernel], into: _Compilation, at_once: bool = False) -> None:
        """Add kernels, in modules of some."""
        for keys in _batches(kernels):
            name = "module-" + _digest(*keys)
            module = target.new_module(name)
            for key in keys:
                symbol = f"k_{key[:40]}_{name[-8:]}"
                into.kernels[key] = kernels[key], name, symbol
                _emit(module, symbol, kernels[key], into.options)
            for needed in shared.declared_in(module):
                self._add_shared(needed, into.maker, at_once)
            into.maker.add(name, str(module), at_once)


def _module_key(name: str) -> str:
    """The name on disk of a module that is no kernels'."""
    return "module-" + _digest(name, target.host().fingerprint, source_stamp())


def _making(key: str, name: str, build: Callable[[ir.Module], None], at_once: bool = False) -> CodeMaker:
    """A module on its way."""
    maker, module = CodeMaker(2), target.new_module(name)
    build(module)
    maker.add(key, str(module), at_once)
    return maker


def _address(module: CompiledModule, symbol: str) -> Address:
    return Address(module.address(symbol), (KERNEL, module.name, symbol))


def _batches(missing: Mapping[str, AnyKernel]) -> Iterator[list[str]]:
    """Keys of kernels that share a module: few, so that modules can be compiled side by side; a tile kernel is long."""
    batch: list[str] = []
    for key, kernel in missing.items():
        if isinstance(kernel, TileKernel):
            yield [key]
            continue
        batch.append(key)
        if len(batch) == KERNELS_IN_A_MODULE:
            yield batch
            batch = []
    if batch:
        yield batch


TABLE: Final = KernelTable()


def compile_kernels(kernels: Sequence[AnyKernel], numerics: str = "default") -> list[NativeKernel]:
    """The native form of each kernel, in order, for this machine; `numerics` as in `EmitOptions`."""
    return TABLE.kernels(kernels, default_options(numerics))


def begin_kernels(kernels: Iterable[AnyKernel], numerics: str = "default") -> None:
    """Have kernels compiled by other threads already, which `compile_kernels` will be asked for next."""
    TABLE.begin(kernels, default_options(numerics))


def compile_module(name: str, build: Callable[[ir.Module], None]) -> CompiledModule:
    """Functions that are not kernels, kept by their LLVM text in memory and on disk; symbols unique in the process."""
    return TABLE.module(name, build)


def begin_module(name: str, build: Callable[[ir.Module], None]) -> None:
    """Have such a module compiled by another thread already; no fork may come before it is asked for."""
    TABLE.begin_module(name, build)
