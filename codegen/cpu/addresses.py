"""Addresses that have a name, so that code which holds them can be kept on disk and bound again in another process."""

from __future__ import annotations

from typing import Final, TypeAlias

Name: TypeAlias = tuple[str, ...]
"""`KERNEL` with module and symbol, the driver's `GEMM`, `BLAS` with the dtype, the `INNER` code of that number, or the
`SWITCH` of a BLAS that others use too."""
KERNEL: Final = "kernel"
GEMM: Final = "gemm"
BLAS: Final = "blas"
INNER: Final = "inner"
SWITCH: Final = "switch"


class Address(int):
    """An address in this process; `name` says of what.

    >>> Address(4096, ("gemm",)) + 0, Address(4096, ("gemm",)).name
    (4096, ('gemm',))
    """

    name: Name

    def __new__(cls, value: int, name: Name) -> Address:
        """`value` is the address."""
        made = super().__new__(cls, value)
        made.name = name
        return made
