"""The gradient of a scan: that of one step, closed over what the steps leave, and what is summed over all steps.

What every step sees whole gets a sum of cotangents, one from each step. Where a step's share is a matrix product or a
sum, its operands are stacked instead, and the sum over all steps is one product or sum behind the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..autodiff import drop_dead, pullback, zeros
from ..builder import Builder
from ..graph import Graph, Value
from ..op import Cotangents, Op, Values, View
from ..ops.arithmetic import Add
from ..ops.broadcast import Sum
from ..ops.creation import Full, Iota
from ..ops.linalg import MatMul
from ..ops.shape import Permute, Reshape
from .flow import active_carries, given_flow

if TYPE_CHECKING:
    from .scan import Scan

Total = Callable[[Builder, Callable[[Value], Value]], Value]  # the sum over all steps, given stacks of a step's values


class ScanGradient:
    """Of a scan of `body`: `needs` tells by operand, `present` by stack, where cotangents are wanted and given.

    `missing` are values of the body that steps of the gradient use, and that are no stacks yet.
    """

    def __init__(
        self, body: Graph, carries: int, sequences: int, needs: Sequence[bool], present: Sequence[bool]
    ) -> None:
        self.body = body
        self.carries = carries
        self.sequences = sequences
        wanted = [n and v.type.dtype.is_differentiable for n, v in zip(needs, body.inputs, strict=True)]
        active = active_carries(body, carries, wanted)
        wanted[:carries] = active
        self.wanted = wanted
        self.step = Builder()
        self.d_carries = {k: self.step.input(body.inputs[k].type) for k in range(carries) if active[k]}
        self.d_stacks = {
            k: self.step.input(v.type)
            for k, v in enumerate(body.outputs[carries:])
            if present[k] and v.type.dtype.is_differentiable
        }
        self.grads = self._pull()
        self._bind_all()
        self.totals = _Totals(self.step, lambda v: v in self.env and v not in self.invariant)

    def _pull(self) -> list[Value | None]:
        """The cotangent of each input of the body from one step."""
        outputs = self.body.outputs
        at = [*self.d_carries, *(self.carries + k for k in self.d_stacks)]
        flow = given_flow(self.step, [outputs[k] for k in at], self.step.inputs)
        wrt = [v for v, w in zip(self.body.inputs, self.wanted, strict=True) if w]
        grads = pullback(self.step, self.body.nodes, wrt, flow)
        drop_dead(self.step, 0, grads)
        found = iter(grads)
        return [next(found) if w else None for w in self.wanted]

    # what a step uses ---------------------------------------------------------------------------------------

    def _bind_all(self) -> None:
        """Find where the step's free values come from: sequences (operands, stacks) or operands seen whole."""
        self.graph = Builder()
        self.env: dict[Value, Value] = {}
        self.sources: dict[Value, Value] = {}  # values of the body that come out of sequences, and what stands for them
        self.whole: dict[Value, Value] = {}  # inputs of the body that every step sees
        self.missing: list[Value] = []
        self.invariant = self._invariant_values()
        inner = {*self.step.inputs, *(r for node in self.step.nodes for r in node.results)}
        for v in self.step.inputs:
            self.env[v] = Value(v.type)
        for node in self.step.nodes:
            for v in node.operands:
                if v not in inner:
                    self._bind(v)
            self.graph.location, self.graph.scope = node.location, node.scope
            self.graph.copy(node, self.env)
        for g in self.grads:
            if g is not None and g not in inner:
                self._bind(g)

    def _invariant_values(self) -> set[Value]:
        """The body's values that are the same in each step."""
        found = set(self.body.inputs[self.carries + self.sequences :])
        for node in self.body.nodes:
            if not node.op.effect and found.issuperset(node.operands):
                found.update(node.results)
        return found

    def _bind(self, v: Value) -> None:
        if v in self.env:
            return
        node = v.node
        if node is not None and (v in self.invariant or isinstance(node.op, View | Full | Iota)):
            for operand in node.operands:
                self._bind(operand)
            self.graph.copy(node, self.env)
            return
        self.env[v] = stand_in = Value(v.type)
        if node is None and v in self.invariant:
            self.whole[v] = stand_in
            return
        self.sources[v] = stand_in
        given = self.body.inputs[self.carries : self.carries + self.sequences]
        if v not in given and v not in self.body.outputs[self.carries :]:
            self.missing.append(v)

    # the scan back ------------------------------------------------------------------------------------------

    def emit(
        self, b: Builder, scan: type[Scan], reverse: bool, operands: Values, cotangents: Cotangents,
        stacks: Mapping[Value, Value],
    ) -> Cotangents:  # fmt: skip
        """Append the scan back; the operands' cotangents. `stacks` has those of the body's values that are stacked."""
        first = self.carries + self.sequences
        outer = {**dict(zip(self.body.inputs, operands, strict=True)), **stacks}
        known = {v: outer[v] for v in self.sources}
        known.update({v: _given(cotangents[self.carries + k]) for k, v in self.d_stacks.items()})
        behind = {k: self.totals.of(g) for k, g in enumerate(self.grads) if k >= first and g is not None}
        inside = [k for k, total in behind.items() if total is None]
        slices = [k for k in range(self.carries, first) if self.grads[k] is not None]
        stacked = dict.fromkeys(_given(self.grads[k]) for k in slices)
        stacked.update(dict.fromkeys(v for v in self.totals.stacked if v not in known))
        order = {self.env[v]: stack for v, stack in known.items()}
        if not order:  # something must say how many steps there are
            order = {Value(self.body.inputs[self.carries].type): operands[self.carries]}
        body, starts = self._body(b, cotangents, inside, list(order), [*map(self._of, stacked)])
        op = scan(body, len(starts), len(order), reverse)
        results = b.emit(op, *starts, *order.values(), *(outer[v] for v in self.whole))
        known.update(zip(stacked, results[len(starts) :], strict=True))
        grads: list[Value | None] = [None] * len(operands)
        for k, g in zip((*self.d_carries, *inside), results, strict=False):
            grads[k] = g
        for k in slices:
            grads[k] = known[_given(self.grads[k])]
        for k, total in behind.items():
            if total is not None:
                grads[k] = total(b, known.__getitem__)
        return grads

    def _body(
        self, b: Builder, cotangents: Cotangents, inside: Sequence[int], slices: Values, stacked: Values
    ) -> tuple[Graph, list[Value]]:
        """The body of the scan back, and what its carries start with: cotangents of carries, and running sums."""
        given = [cotangents[k] for k in self.d_carries]
        starts = [zeros(b, v.type) if g is None else g for g, v in zip(given, self.d_carries.values(), strict=True)]
        starts += [zeros(b, self.body.inputs[k].type) for k in inside]
        late = Builder()
        sums = [Value(self.body.inputs[k].type) for k in inside]
        after = [
            zeros(late, v.type) if self.grads[k] is None else self._of(self.grads[k]) for k, v in self.d_carries.items()
        ]
        after += [late(Add(), total, self._of(self.grads[k])) for k, total in zip(inside, sums, strict=True)]
        inputs = [*map(self._of, self.d_carries.values()), *sums, *slices, *self.whole.values()]
        late.nodes[:0] = self.graph.nodes
        drop_dead(late, 0, [*after, *stacked])
        return Graph(inputs, late.nodes, [*after, *stacked]), starts

    def _of(self, v: Value | None) -> Value:
        return self.env[_given(v)]


def _given(v: Value | None) -> Value:
    assert v is not None
    return v


class _Totals:
    """Sums over all steps that need no running sum in the loop; `stacked` are the step's values they are made of."""

    def __init__(self, step: Builder, can_stack: Callable[[Value], bool]) -> None:
        self.inner = {r for node in step.nodes for r in node.results}
        self.can_stack = can_stack
        self.stacked: dict[Value, None] = {}

    def of(self, v: Value) -> Total | None:
        """How to sum `v` over all steps; None if it takes a running sum."""
        noted = dict(self.stacked)
        found = self._find(v)
        if found is None:
            self.stacked = noted
        return found

    def _find(self, v: Value) -> Total | None:
        node = v.node
        if v not in self.inner or node is None:
            return self._sum(v, (), v)
        match node.op:
            case Add():
                return self._both(*node.operands)
            case Permute() | Reshape():
                return self._after(node.op, node.operands[0])
            case Sum(axes=axes):
                return self._sum(node.operands[0], axes, v)
            case MatMul() if v.ndim == 2:
                return self._product(*node.operands)
        return None

    def _both(self, x: Value, y: Value) -> Total | None:
        left, right = self._find(x), self._find(y)
        if left is None or right is None:
            return None
        return lambda b, stack: b(Add(), left(b, stack), right(b, stack))

    def _after(self, op: Op, x: Value) -> Total | None:
        total = self._find(x)
        return None if total is None else lambda b, stack: b(op, total(b, stack))

    def _sum(self, x: Value, axes: tuple[int, ...], result: Value) -> Total | None:
        if not self.can_stack(x):
            return None
        self.stacked[x] = None
        over = (0, *(a + 1 for a in axes))

        def total(b: Builder, stack: Callable[[Value], Value]) -> Value:
            found = b(Sum(over), stack(x))
            return found if found.type.shape == result.type.shape else b(Reshape(result.type.shape), found)

        return total

    def _product(self, x: Value, y: Value) -> Total | None:
        """Sum of x_t y_t: one product over an axis that joins the steps with the contracted one."""
        left, swapped = _unswapped(x)
        right, crossed = _unswapped(y)
        if not (self.can_stack(left) and self.can_stack(right)):
            return None
        self.stacked[left] = self.stacked[right] = None

        def total(b: Builder, stack: Callable[[Value], Value]) -> Value:
            a, c = stack(left), stack(right)
            rows = _joined(b, a, 1 if swapped else 2)
            columns = _joined(b, c, 2 if crossed else 1)
            return b(MatMul(), b(Permute((1, 0)), rows), columns)

        return total


def _unswapped(v: Value) -> tuple[Value, bool]:
    """A matrix, or the one that it is the transpose of."""
    node = v.node
    if node is not None and isinstance(node.op, Permute) and node.op.perm == (1, 0):
        return node.operands[0], True
    return v, False


def _joined(b: Builder, stack: Value, axis: int) -> Value:
    """A stack of matrices as one matrix, whose rows are those along `axis` of all of them."""
    length, *sides = stack.type.shape
    if axis == 2:
        stack = b(Permute((0, 2, 1)), stack)
        sides.reverse()
    return b(Reshape((length * sides[0], sides[1])), stack)


__all__ = ["ScanGradient"]
