"""What happens to a graph before fusion: passes, decomposition of composites, widening of half-precision products."""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.passes import Decompose, EliminateDeadCode, simplification
from jitgrad.ir.rewrite import Rules, rewrite

from .options import CompileOptions

_RULES = Rules()


@_RULES(MatMul)
def _widen_product(b: Builder, node: Node) -> Sequence[Value] | None:
    """BLAS has no half types: convert, multiply in float32, convert back."""
    dtype = node.result.type.dtype
    if dtype not in (dtypes.float16, dtypes.bfloat16):
        return None
    wide = [b(Convert(dtypes.float32), v) for v in node.operands]
    return (b(Convert(dtype), b(MatMul(), *wide)),)


def prepare(graph: Graph, options: CompileOptions) -> Graph:
    """An equivalent graph of primitives."""
    if options.passes:
        graph = simplification().run(graph)
    graph = rewrite(Decompose().run(graph), _RULES)
    graph = EliminateDeadCode().run(graph)
    return simplification().run(graph) if options.passes else graph
