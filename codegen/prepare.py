"""What happens to a graph before fusion: passes, decomposition of composites, widening of half-precision products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.control import Cond, Scan, WhileGradient, WhileLoop
from jitgrad.ir.graph import Graph, Node, Value
from jitgrad.ir.ops.arithmetic import Mul
from jitgrad.ir.ops.broadcast import BroadcastTo
from jitgrad.ir.ops.linalg import MatMul, transposed
from jitgrad.ir.ops.select import Convert
from jitgrad.ir.ops.shape import Permute
from jitgrad.ir.passes import (
    Decompose,
    EliminateCommonSubexpressions,
    EliminateDeadCode,
    HoistInvariants,
    Pipeline,
    PruneLoops,
    RollLoops,
    simplification,
)
from jitgrad.ir.passes.decompose import NO_RULES
from jitgrad.ir.passes.pipeline import Observer, ignore
from jitgrad.ir.rewrite import Rules, map_sub_graphs, rewrite
from jitgrad.ir.tracked import happens_to_be

from .attention.rules import attention_rules
from .attention.written import find_attention
from .conv.epilogue import with_epilogues
from .conv.factors import pack_factors
from .conv.rules import tile_rules
from .conv.target import TileTarget
from .options import CompileOptions

_RULES = Rules()


@_RULES(MatMul)
def _outer_product(b: Builder, node: Node) -> Sequence[Value] | None:
    """Over an axis of one element a batch of products is a multiplication, which is fused with what is around it."""
    x, y = node.operands
    if x.ndim < 3 or not happens_to_be(x.shape[-1], 1):
        return None
    shape = node.result.shape
    return (b(Mul(), b(BroadcastTo(shape), x), b(BroadcastTo(shape), y)),)


@_RULES(MatMul)
def _widen_product(b: Builder, node: Node) -> Sequence[Value] | None:
    """BLAS has no half types: convert, multiply in float32, convert back."""
    dtype = node.result.type.dtype
    if dtype not in (dtypes.float16, dtypes.bfloat16):
        return None
    wide = [b(Convert(dtypes.float32), v) for v in node.operands]
    return (b(Convert(dtype), b(MatMul(), *wide)),)


def _widened(graph: Graph) -> Graph:
    return rewrite(map_sub_graphs(graph, _widened), _RULES)


def _is_taken_whole(node: Node) -> bool:
    """A loop's gradient keeps what its decomposition would compute many times."""
    return isinstance(node.op, WhileGradient)


def _transposed_products(graph: Graph) -> Graph:
    """`(x y)'` becomes `y' x'`, whose transpositions cost nothing, where nothing else needs the product."""
    graph = map_sub_graphs(graph, _transposed_products)
    if not any(_swaps_last_axes(node) for node in graph.nodes):
        return graph
    uses = Counter([*graph.outputs, *(v for node in graph.nodes for v in node.operands)])
    b, env = Builder(), dict[Value, Value]()
    b.inputs = list(graph.inputs)
    for node in graph.nodes:
        maker = node.operands[0].node if _swaps_last_axes(node) else None
        if maker is None or not isinstance(maker.op, MatMul) or uses[maker.result] > 1:
            b.copy(node, env)
            continue
        b.location, b.scope = node.location, node.scope
        x, y = (env.get(v, v) for v in maker.operands)
        env[node.result] = b(MatMul(), transposed(b, y), transposed(b, x))
    return b.build([env.get(v, v) for v in graph.outputs])


def _swaps_last_axes(node: Node) -> bool:
    if not isinstance(node.op, Permute):
        return False
    n = len(node.op.perm)
    return n >= 2 and node.op.perm == (*range(n - 2), n - 1, n - 2)


def prepare(
    graph: Graph, options: CompileOptions, observer: Observer = ignore, *, half_products: bool = False,
    tiles: TileTarget | None = None,
) -> Graph:  # fmt: skip
    """An equivalent graph of primitives. `observer(name, graph)` sees the graph after each pass.

    `half_products` says that the backend multiplies matrices of half types itself, adding up in float32.
    `tiles` are the registers that it runs convolutions and attention with, if it does.
    """
    simplify = simplification(observer)
    if options.passes:
        graph = Pipeline((EliminateDeadCode(), RollLoops()), observer).run(graph)
        graph = simplify.run(graph)
    if tiles is not None and options.passes and options.fuse and options.numerics != "strict":
        graph = find_attention(graph, tiles)
    by_tiles = NO_RULES if tiles is None else tile_rules(tiles) | attention_rules(tiles)
    graph = Pipeline((Decompose(_is_taken_whole, by_tiles),), observer).run(graph)
    if not half_products:
        graph = _widened(graph)
    if options.passes:
        graph = simplify.run(graph)
    graph = _transposed_products(graph)
    if tiles is not None and options.fuse:
        graph = with_epilogues(graph)
    if any(isinstance(node.op, Cond | Scan | WhileLoop) for node in graph.nodes):
        graph = PruneLoops().run(graph)
    if tiles is not None:
        graph = EliminateCommonSubexpressions().run(pack_factors(graph, tiles))
    if any(isinstance(node.op, Cond | Scan | WhileLoop) for node in graph.nodes):
        graph = Pipeline((HoistInvariants(),), observer).run(graph)
    return EliminateDeadCode().run(graph)
