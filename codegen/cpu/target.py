"""The host as a compilation target; the only file that touches Numba's internals for the CPU.

Modules go through Numba's own code library, so that they get the host's features, its pass pipeline, its memory
manager and its object cache hooks. Everything here holds Numba's global compiler lock.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import llvmlite
import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

Build = Callable[[ir.Module], None]


@dataclass(frozen=True, slots=True)
class Host:
    """What the emitter needs to know of the machine."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    masked_vectors: bool  # masked loads and stores of every element width are single instructions
    half_conversions: bool  # float16 <-> float32 are instructions

    @property
    def fingerprint(self) -> str:
        """Names everything outside a kernel's text that its machine code depends on."""
        versions = f"numba {numba.__version__} llvmlite {llvmlite.__version__} llvm {llvm.llvm_version_info}"
        return f"{self.triple} {self.cpu} {self.features} {versions}"


@functools.cache
def host() -> Host:
    """The machine this process runs on, as Numba targets it."""
    triple, cpu, features = _codegen().magic_tuple()
    has = {f[1:] for f in features.split(",") if f.startswith("+")}
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    masked = {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= has
    bits = 512 if masked else 256 if "avx" in has else 128
    return Host(triple, cpu, features, bits, masked, is_arm or "f16c" in has)


def _codegen() -> numba.core.codegen.JITCPUCodegen:
    return cpu_target.target_context.codegen()


class CompiledModule:
    """Machine code of one LLVM module, loaded into this process for good."""

    __slots__ = ("_library", "name", "object_code")

    def __init__(self, library: numba.core.codegen.JITCodeLibrary, name: str) -> None:
        self._library = library
        self.name = name
        state = library.serialize_using_object_code()
        self.object_code: tuple[bytes, bytes] = state[2]

    def address(self, symbol: str) -> int:
        """Where `symbol` starts; `KeyError` if the module does not define it."""
        with global_compiler_lock:
            address: int = self._library.get_pointer_to_function(symbol)
        if not address:
            raise KeyError(symbol)
        return address


def compile_module(name: str, build: Build) -> CompiledModule:
    """Compile what `build` adds to an empty module. Symbols must be unique in the process."""
    module = new_module(name)
    build(module)
    with global_compiler_lock:
        library = _codegen().create_library(name)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        return CompiledModule(library, name)


def load_module(name: str, object_code: tuple[bytes, bytes]) -> CompiledModule:
    """Load `CompiledModule.object_code` of another process; no optimisation is run again."""
    with global_compiler_lock:
        library = _codegen().unserialize_library((name, "object", object_code))
        loaded = CompiledModule.__new__(CompiledModule)
        loaded._library, loaded.name, loaded.object_code = library, name, object_code
        return loaded


def new_module(name: str) -> ir.Module:
    """An empty module for this host."""
    module = ir.Module(name)
    module.triple = host().triple
    module.data_layout = str(_codegen().target_data)
    return module


def optimise(module: ir.Module) -> tuple[str, str]:
    """The optimised LLVM text and the assembly of `module`, for dumps; nothing is loaded."""
    with global_compiler_lock:
        codegen = _codegen()
        parsed = llvm.parse_assembly(str(module))
        for options in ({"loop_vectorize": False, "opt": 0, "cost": "cheap"}, {}):
            manager, builder = codegen._module_pass_manager(**options)
            manager.run(parsed, builder)
        return str(parsed), str(codegen._tm.emit_assembly(parsed))


def symbols_defined(module: CompiledModule, symbols: Iterable[str]) -> bool:
    """Whether every one of `symbols` is in the module."""
    return all(module._library.get_pointer_to_function(s) for s in symbols)
