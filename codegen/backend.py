"""The one place where code generation loads its backend, and with it Numba and llvmlite: on first use, not at import."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .loops.ir import Kernel

if TYPE_CHECKING:
    from types import ModuleType

    from .cpu.kernels import NativeKernel


@functools.cache
def cpu() -> ModuleType:
    """`jitgrad.codegen.cpu.kernels`, loaded now."""
    return importlib.import_module(".cpu.kernels", __package__)


def compile_kernels(kernels: Sequence[Kernel], numerics: str = "default") -> list[NativeKernel]:
    """The native form of each kernel, in order; those not known yet are compiled in one module."""
    native: list[NativeKernel] = cpu().compile_kernels(kernels, numerics)
    return native
