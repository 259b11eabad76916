"""From loop-level kernels to callable machine code: one LLVM module for all kernels not known yet."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from ..loops import printer
from ..loops.ir import Kernel
from . import target
from .emit import emit_kernel
from .options import EmitOptions


def default_options(numerics: str = "default") -> EmitOptions:
    """The options for this machine."""
    host = target.host()
    return EmitOptions(numerics, host.vector_bits, host.masked_vectors)


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """A kernel's machine code in this process. `compile_ms` is that of the whole module it was compiled with."""

    key: str
    source: Kernel
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
        return target.optimise(self._module())[0]

    def assembly(self) -> str:
        """The machine code as text."""
        return target.optimise(self._module())[1]

    def _module(self) -> ir.Module:
        module = target.new_module(self.symbol)
        emit_kernel(module, self.symbol, self.source, self.options)
        return module


def kernel_key(kernel: Kernel, options: EmitOptions) -> str:
    """The content hash under which a kernel is known: text, options, host and versions."""
    content = "\n".join((printer.canonical_text(kernel), repr(options), target.host().fingerprint))
    return hashlib.sha256(content.encode()).hexdigest()


_KNOWN: dict[str, NativeKernel] = {}


def compile_kernels(kernels: Sequence[Kernel], numerics: str = "default") -> list[NativeKernel]:
    """The native form of each kernel, in order; those not known yet are compiled in one module."""
    options = default_options(numerics)
    keys = [kernel_key(k, options) for k in kernels]
    fresh = {key: k for key, k in zip(keys, kernels) if key not in _KNOWN}
    if fresh:
        start = time.perf_counter()
        name = "jg_" + hashlib.sha256("".join(fresh).encode()).hexdigest()[:24]
        symbols = {key: f"{name}_{i}" for i, key in enumerate(fresh)}

        def build(module: ir.Module) -> None:
            for key, kernel in fresh.items():
                emit_kernel(module, symbols[key], kernel, options)

        compiled = target.compile_module(name, build)
        took = 1e3 * (time.perf_counter() - start)
        for key, kernel in fresh.items():
            address = compiled.address(symbols[key])
            _KNOWN[key] = NativeKernel(key, kernel, options, address, symbols[key], took, "")
    return [_KNOWN[key] for key in keys]
