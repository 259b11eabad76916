"""The ops, and the registry that finds them by name.

Each module lists its ops in `__all__`, and `_MODULES` the modules, so that adding an op touches one file.
"""

from __future__ import annotations

from types import ModuleType

from ..op import Op
from . import (
    activation,
    argmax,
    arithmetic,
    bessel,
    broadcast,
    check,
    comparison,
    complex,
    conv,
    creation,
    float_parts,
    fourier,
    gamma,
    history,
    indexing,
    integers,
    linalg,
    linear,
    logical,
    loss,
    math,
    normal,
    normalization,
    polynomial,
    pooling,
    random,
    reduction,
    rounding,
    scan,
    scatter_extreme,
    scatter_product,
    select,
    shape,
    slicing,
    softmax,
    sorting,
    statistics,
    strided,
    trigonometry,
    windows,
    write,
)

_MODULES: tuple[ModuleType, ...] = (
    creation,
    comparison,
    logical,
    select,
    history,
    complex,
    check,
    arithmetic,
    rounding,
    math,
    trigonometry,
    integers,
    float_parts,
    gamma,
    normal,
    bessel,
    polynomial,
    shape,
    broadcast,
    write,
    slicing,
    reduction,
    argmax,
    statistics,
    scan,
    random,
    indexing,
    scatter_extreme,
    scatter_product,
    linalg,
    linear,
    fourier,
    activation,
    softmax,
    sorting,
    windows,
    strided,
    loss,
    conv,
    pooling,
    normalization,
)


def _ops_of(module: ModuleType) -> list[type[Op]]:
    exported = [getattr(module, name) for name in module.__all__]
    return [c for c in exported if isinstance(c, type) and issubclass(c, Op) and "name" in vars(c)]


REGISTRY: dict[str, type[Op]] = {cls.name: cls for module in _MODULES for cls in _ops_of(module)}
