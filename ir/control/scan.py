"""A loop over the first axis of sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..batching import batch_graph
from ..builder import Builder
from ..errors import ArgumentError, ShapeError
from ..graph import Graph, Value
from ..interpreter import run
from ..op import Array, Batched, Cotangents, Op, Values, op
from ..ops.sample_axis import all_batched, moved
from ..types import TensorType
from .scan_gradient import ScanGradient
from .signature import check_carries, check_inputs


@op
class Scan(Op):
    """`body` applied to one slice of each sequence after another, handing `carries` values from step to step.

    Operands: the carries to start with; `sequences` values (at least one) of one length, cut along axis 0; and
    values that every step sees whole. The body takes a carry or slice for each, and gives the next carries, then
    values that are stacked. Results: the last carries, then the stacks, in the order of the slices also if `reverse`,
    which goes from the last slice to the first.

    >>> import numpy as np
    >>> from jitgrad.ir.parser import parse
    >>> body = parse("graph(%h: f32[], %x: f32[]) -> (f32[], f32[]) { %s = add(%h, %x) : f32[] return %s, %s }")
    >>> [y.tolist() for y in Scan(body, 1, 1).reference(np.float32(0), np.arange(4, dtype=np.float32))]
    [6.0, [0.0, 1.0, 3.0, 6.0]]
    """

    body: Graph
    carries: int
    sequences: int
    reverse: bool = False
    name = "scan"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """The carries' types, and those of stacks."""
        first = self.carries + self.sequences
        if self.sequences < 1 or len(operands) < first:
            raise ArgumentError(
                f"scan: {self.carries} carries and {self.sequences} sequences of {len(operands)} values"
            )
        slices = []
        for i, t in enumerate(operands[self.carries : first]):
            if not t.ndim:
                raise ShapeError(f"scan: sequence {i} has no axis to go along: {t}")
            if t.shape[0] != operands[self.carries].shape[0]:
                raise ShapeError(
                    f"scan: sequences 0 and {i} differ in length: {operands[self.carries].shape[0]} and {t.shape[0]}"
                )
            slices.append(t.with_shape(t.shape[1:]))
        check_inputs(self.name, "the body", self.body, [*operands[: self.carries], *slices, *operands[first:]])
        check_carries(self.name, self.body, self.carries)
        length = operands[self.carries].shape[0]
        stacks = [v.type.with_shape((length, *v.type.shape)) for v in self.body.outputs[self.carries :]]
        return (*operands[: self.carries], *stacks)

    def batch(self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], size: int) -> Batched:
        """The body for all samples; their axis stands behind that of the steps."""
        n, first = self.carries, self.carries + self.sequences
        flags = [*[True] * n, *batched[n:]]
        carries = all_batched(b, operands[:n], batched[:n], size)
        cut = [moved(b, x, 0, 1) if has else x for x, has in zip(operands[n:first], batched[n:first], strict=True)]
        inner = Builder()
        slices = [x.type.with_shape(x.shape[1:]) for x in cut]
        types = [*[x.type for x in carries], *slices, *[x.type for x in operands[first:]]]
        inputs = [inner.input(t, v.name) for t, v in zip(types, self.body.inputs, strict=True)]
        body = inner.build(batch_graph(inner, self.body, inputs, flags, size))
        results = b.emit(Scan(body, n, self.sequences, self.reverse), *carries, *cut, *operands[first:])
        return *results[:n], *[moved(b, y, 1, 0) for y in results[n:]]

    def reference(self, *operands: Array) -> Array:
        """The body interpreted step by step."""
        first = self.carries + self.sequences
        state, xs, rest = list(operands[: self.carries]), operands[self.carries : first], operands[first:]
        length = xs[0].shape[0]
        stacks = [np.empty((length, *v.shape), v.dtype) for v in self.body.outputs[self.carries :]]
        for t in reversed(range(length)) if self.reverse else range(length):
            out = run(self.body, [*state, *(x[t, ...] for x in xs), *rest])
            state = out[: self.carries]
            for stack, y in zip(stacks, out[self.carries :], strict=True):
                stack[t] = y
        return (*state, *stacks)

    def vjp(
        self, b: Builder, operands: Values, results: Values, cotangents: Cotangents, needs: Sequence[bool]
    ) -> Cotangents:
        """A scan the other way round, over what each step leaves for its gradient.

        Of that it takes what is among the stacks (see `with_residuals`); for the rest the scan is run again.
        """
        present = [g is not None for g in cotangents[self.carries :]]
        gradient = ScanGradient(self.body, self.carries, self.sequences, needs, present)
        missing = gradient.missing
        stacks = dict(zip(self.body.outputs[self.carries :], results[self.carries :], strict=True))
        if missing:
            again = Scan(self._giving(missing), self.carries, self.sequences, self.reverse)
            stacks.update(zip(missing, b.emit(again, *operands)[self.carries :], strict=True))
        return gradient.emit(b, Scan, not self.reverse, operands, cotangents, stacks)

    def with_residuals(self, needs: Sequence[bool]) -> Scan:
        """This scan with more stacks behind its own: all that its gradient uses, so that nothing is run again."""
        present = [True] * (len(self.body.outputs) - self.carries)
        missing = ScanGradient(self.body, self.carries, self.sequences, needs, present).missing
        return Scan(
            self._giving([*self.body.outputs[self.carries :], *missing]), self.carries, self.sequences, self.reverse
        )

    def _giving(self, stacked: Values) -> Graph:
        """The body with other values stacked."""
        return Graph(self.body.inputs, self.body.nodes, [*self.body.outputs[: self.carries], *stacked])
