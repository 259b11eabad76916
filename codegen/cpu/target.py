"""The host as a compilation target: from LLVM text to object code, and from object code to addresses.

Numba's LLVM (llvmlite) is used without Numba, whose import takes longer than compiling most kernels. The pass pipeline
is our own: emitted kernels are vectorised, free of repeated work and hoisted already, and all of -O3 took more time
than everything else for the same speed.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import llvmlite
import llvmlite.binding as llvm

from . import llvm_ir as ir


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
        versions = f"llvmlite {llvmlite.__version__} llvm {llvm.llvm_version_info}"
        return f"{self.triple} {self.cpu} {self.features} {versions}"


@functools.cache
def host() -> Host:
    """The machine this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    flags = llvm.get_host_cpu_features()
    has = {name for name, there in flags.items() if there}
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    masked = {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= has
    bits = 512 if masked else 256 if "avx" in has else 128
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    registers, halves = 32 if masked or is_arm else 16, is_arm or "f16c" in has
    return Host(triple, cpu, flags.flatten(), bits, registers, masked, halves, masked)


def _target_machine() -> llvm.TargetMachine:
    """A target machine of its own, as threads that compile side by side need one each."""
    target, is_x86 = llvm.Target.from_triple(host().triple), host().triple.startswith(("x86", "i386", "i686"))
    return target.create_target_machine(
        cpu=host().cpu, features=host().features, opt=3, reloc="static" if is_x86 else "default",
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


@functools.cache
def _engine() -> llvm.ExecutionEngine:
    """What loads object code into this process."""
    empty = llvm.parse_assembly(f'target triple = "{host().triple}"', llvm.create_context())
    return llvm.create_mcjit_compiler(empty, _target_machine())


@functools.cache
def _data_layout() -> str:
    return str(_engine().target_data)


@dataclass(frozen=True, slots=True)
class CompiledModule:
    """Machine code of one LLVM module, loaded into this process for good."""

    name: str
    object_code: bytes

    def address(self, symbol: str) -> int:
        """Where `symbol` starts; `KeyError` if the module does not define it."""
        address: int = _engine().get_function_address(symbol)
        if not address:
            raise KeyError(symbol)
        return address


@contextmanager
def _parsed(text: str) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The module that `text` describes after LLVM's passes, in a context of its own."""
    machine, context = _target_machine(), llvm.create_context()
    module = llvm.parse_assembly(text, context)
    try:
        _run_passes(module, machine)
        yield module, machine
    finally:
        module.close()
        context.close()


def _run_passes(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """Inline what asks for it, turn stack cells into registers, tidy up."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    manager.run(module, builder)


def object_code(text: str) -> bytes:
    """The object file of a module's text. Threads may compile side by side."""
    with _parsed(text) as (module, machine):
        return _emit_object(machine, module)


def _emit_object(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object(module)`, but for llvmlite's lock, under which one thread would work at a time.

    LLVM asks that threads share no context and no target machine, which holds here.
    """
    lib = llvm.ffi.lib
    emit = getattr(lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", lib.LLVMPY_TargetMachineEmitToMemory)
    with llvm.ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


def give_back_memory() -> None:
    """Have the C library give free memory back to the system, where it can."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def compile_module(module: ir.Module) -> CompiledModule:
    """Compile and load a module made by `new_module`. Its symbols must be unique in the process."""
    return load_module(module.name, object_code(str(module)))


def load_module(name: str, code: bytes) -> CompiledModule:
    """Load object code, of this process or another one."""
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return CompiledModule(name, code)


def new_module(name: str) -> ir.Module:
    """An empty module for this host."""
    module = ir.Module(name)
    module.triple = host().triple
    module.data_layout = _data_layout()
    return module


def optimise(text: str) -> tuple[str, str]:
    """The optimised LLVM text and the assembly of a module's text, for dumps; nothing is loaded."""
    with _parsed(text) as (module, machine):
        return str(module), machine.emit_assembly(module)
