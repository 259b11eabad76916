"""The host as a compilation target; the only file that touches Numba's internals for the CPU.

Modules go through Numba's own code library, so that they get the host's features, its execution engine, its memory
manager and its object cache hooks, but with a pass pipeline of our own: emitted kernels are vectorised, free of
repeated work and hoisted already, and Numba's pipeline (all of -O3, twice) took more time than everything else for
the same speed. Everything here holds Numba's global compiler lock.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target


@dataclass(frozen=True, slots=True)
class Host:
    """What the emitter needs to know of the machine."""

    triple: str
    cpu: str
    features: str
    vector_bits: int
    vector_registers: int
    masked_vectors: bool  # masked loads and stores of every element width are single instructions
    half_conversions: bool  # float16 <-> float32 are instructions
    scales: bool  # x * 2**n is an instruction

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
    return Host(triple, cpu, features, bits, 32 if masked or is_arm else 16, masked, is_arm or "f16c" in has, masked)


def _codegen() -> Any:
    return cpu_target.target_context.codegen()


class ObjectCode(NamedTuple):
    """A module as an object file, and the bitcode that names its symbols."""

    machine: bytes
    bitcode: bytes

    def to_bytes(self) -> bytes:
        """One block: the length of `machine` in 8 bytes, then both parts."""
        return len(self.machine).to_bytes(8, "little") + self.machine + self.bitcode

    @classmethod
    def from_bytes(cls, data: bytes) -> ObjectCode:
        """The inverse of `to_bytes`."""
        border = 8 + int.from_bytes(data[:8], "little")
        return cls(data[8:border], data[border:])


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """Machine code of one LLVM module, loaded into this process for good."""

    name: str
    object_code: ObjectCode
    library: Any  # Numba's classes are untyped

    def address(self, symbol: str) -> int:
        """Where `symbol` starts; `KeyError` if the module does not define it."""
        with global_compiler_lock:
            address: int = self.library.get_pointer_to_function(symbol)
        if not address:
            raise KeyError(symbol)
        return address


class _KernelLibrary(JITCodeLibrary):
    """Numba's code library with the short pipeline that emitted kernels need."""

    def _optimize_functions(self, ll_module: llvm.ModuleRef) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        _run_passes(self._final_module)


_LIBRARY: Any = _KernelLibrary


def _run_passes(module: llvm.ModuleRef) -> None:
    """Inline what asks for it, turn stack cells into registers, tidy up."""
    builder = _codegen()._pass_builder(opt=2, loop_vectorize=False, slp_vectorize=False)
    manager = llvm.newpassmanagers.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.run(module, builder)


def compile_module(module: ir.Module) -> CompiledModule:
    """Compile and load a module made by `new_module`. Its symbols must be unique in the process."""
    with global_compiler_lock:
        library: Any = _LIBRARY(_codegen(), module.name)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        machine, bitcode = library.serialize_using_object_code()[2]
        return CompiledModule(module.name, ObjectCode(machine, bitcode), library)


def load_module(name: str, code: ObjectCode) -> CompiledModule:
    """Load the `object_code` of a module that another process compiled; no optimisation is run again."""
    with global_compiler_lock:
        library = _codegen().unserialize_library((name, "object", tuple(code)))
        return CompiledModule(name, code, library)


def new_module(name: str) -> ir.Module:
    """An empty module for this host."""
    module = ir.Module(name)
    module.triple = host().triple
    module.data_layout = str(_codegen().target_data)
    return module


def optimise(text: str) -> tuple[str, str]:
    """The optimised LLVM text and the assembly of a module's text, for dumps; nothing is loaded."""
    with global_compiler_lock:
        parsed = llvm.parse_assembly(text)
        _run_passes(parsed)
        return str(parsed), str(_codegen()._tm.emit_assembly(parsed))
