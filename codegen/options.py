"""Settings of the code generator that a caller may choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How `compile_graph` works. The defaults are what everybody but tests and measurements wants.

    `fuse=False` gives every node its own kernel. `passes=False` takes the graph as it is but for composites, which are
    still decomposed. `check_plan=False` leaves out the plan's verifier. `numerics="strict"` rounds every operation by
    itself, in the order written; "default" contracts multiply-adds and folds sums in vector lanes.
    `host=True` runs all nodes through NumPy, as eager code does, and compiles nothing.
    `vector_bits` are what registers in tile kernels have, if not the widest that the machine has.
    """

    fuse: bool = True
    passes: bool = True
    check_plan: bool = True
    numerics: str = "default"
    vector_bits: int | None = None
    host: bool = False


DEFAULT = CompileOptions()
