"""Hypothesis strategies for random well-typed graphs with inputs that hold the awkward values.

    from properties.strategies import graphs

    @given(graphs())
    def test_meaning(case):
        graph, arrays = case

The ops come from the registry: a new pointwise op or reduction takes part by being there.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from jitgrad.ir import dtypes
from jitgrad.ir.builder import Builder
from jitgrad.ir.errors import JitgradError
from jitgrad.ir.graph import Graph
from jitgrad.ir.op import Op, Pointwise, Reduction
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Maximum, Mul, Neg, Sub
from jitgrad.ir.ops.broadcast import BroadcastTo, Sum
from jitgrad.ir.ops.creation import Constant, Full, Iota, Literal
from jitgrad.ir.ops.indexing import Gather, IndexSelect
from jitgrad.ir.ops.linalg import MatMul
from jitgrad.ir.ops.logical import LogicalAnd, LogicalNot
from jitgrad.ir.ops.random import RandomUniform
from jitgrad.ir.ops.rounding import FloorDivide, Fmod, Remainder
from jitgrad.ir.ops.scan import LinearScan
from jitgrad.ir.ops.select import Convert, Where
from jitgrad.ir.ops.shape import Flip, Permute, Reshape
from jitgrad.ir.ops.slicing import Concat, Diagonal, Pad, Slice
from jitgrad.ir.ops.write import WriteView
from jitgrad.ir.types import TensorType

MAX_ELEMENTS = 300
REAL = (dtypes.float32, dtypes.float64, dtypes.int64, dtypes.int32, dtypes.bool_)
ALL = (*REAL, dtypes.uint8, dtypes.int8, dtypes.float16, dtypes.bfloat16, dtypes.complex64)
ARITHMETIC = (Add, Sub, Mul, Div, Neg, Abs, Maximum, LogicalAnd, LogicalNot)  # more often than the others
DIVISIONS = (FloorDivide, Fmod, Remainder)  # raise when integers are divided by zero
AWKWARD = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.75, float("inf"), float("-inf"), float("nan"))
NUMBERS = (0, -0.0, 1, -1, 2, 0.5, float("inf"), float("-inf"), float("nan"))


def _takes_any(cls: type[Op]) -> bool:
    return True


def _open_fields(cls: type[Op]) -> set[str]:
    """The fields without a default value."""
    return {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}


@functools.cache
def simple_pointwise() -> tuple[type[Pointwise], ...]:
    """The pointwise ops that can be made without arguments, and whose operands are all of one type."""
    found = (c for c in REGISTRY.values() if issubclass(c, Pointwise) and not issubclass(c, Where))
    return tuple(c for c in found if not _open_fields(c))


@functools.cache
def reductions() -> tuple[type[Op], ...]:
    """The reductions, composites included, that need axes and nothing else."""
    return tuple(
        c
        for c in REGISTRY.values()
        if "keepdim" in {f.name for f in dataclasses.fields(c)} and _open_fields(c) == {"axes"}
    )


@functools.cache
def along_axis() -> tuple[type[Op], ...]:
    """The ops of one operand that need an axis and nothing else: softmax, scans."""
    found = (c for c in REGISTRY.values() if _open_fields(c) == {"axis"} and not issubclass(c, LinearScan))
    return tuple(filter(_takes_one, found))


def _takes_one(cls: type[Op]) -> bool:
    try:
        cls(axis=0).infer(TensorType((2,), dtypes.float32))
    except ValueError:  # of unpacking the operands
        return False
    return True


@st.composite
def graphs(
    draw: Callable,
    *,
    max_nodes: int = 14,
    max_inputs: int = 3,
    dtypes: tuple = ALL,
    allow: Callable[[type[Op]], bool] = _takes_any,
    awkward: bool = True,
) -> tuple[Graph, list[np.ndarray]]:
    """A graph and arrays for its inputs.

    `allow` says which op classes may occur (`Full`, `Iota` and `Constant` always may), `dtypes` which element
    types, `awkward` whether inputs and constants hold NaN, infinities, signed zeros and denormals.
    """
    growth = _Growth(draw, dtypes, allow, awkward)
    for _ in range(draw(st.integers(1, max_inputs))):
        growth.input()
    for _ in range(draw(st.integers(1, max_nodes))):
        growth.step()
    return growth.finish()


class _Growth:
    """A graph that grows by random steps. A step that would break an op's rule does nothing."""

    def __init__(self, draw, types, allow, awkward):
        self.draw, self.types, self.allow, self.awkward = draw, types, allow, awkward
        self.b = Builder()
        self.values = []
        self.random = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.favourite = TensorType(self.shape(), self.pick(types))  # so that values fit each other
        self.pointwise = self.shuffled(filter(allow, (*simple_pointwise(), *4 * ARITHMETIC)))
        self.reductions = self.shuffled(filter(allow, (*reductions(), Sum)))
        self.along_axis = self.shuffled(filter(allow, along_axis()))
        steps = [
            (14, Pointwise, self.apply_pointwise), (2, Where, self.where), (1, Convert, self.convert),
            (2, Reduction, self.reduce), (1, Reshape, self.reshape), (1, Permute, self.permute),
            (1, Flip, self.flip), (2, Slice, self.slice), (1, BroadcastTo, self.broadcast),
            (1, Diagonal, self.diagonal), (1, Concat, self.concat), (1, Pad, self.pad),
            (1, MatMul, self.matmul), (1, WriteView, self.write), (1, IndexSelect, self.index_select),
            (1, Op, self.along_an_axis), (1, Gather, self.gather), (1, RandomUniform, self.draw_uniform),
            (2, Full, self.constant),
        ]  # fmt: skip
        always = (Pointwise, Reduction, Op, Full)
        self.steps = self.shuffled(s for n, cls, s in steps if cls in always or allow(cls) for _ in range(n))

    def shuffled(self, items):
        """In a random order, because Hypothesis has a liking for the first and the last."""
        items = list(items)
        return [items[i] for i in self.random.permutation(len(items))]

    def integer(self, low, high):
        return self.draw(st.integers(low, high))

    def pick(self, items):
        return items[self.integer(0, len(items) - 1)]

    def shape(self, ndim=None):
        lengths = (2, 3, 1, 4, 5, 3, 2, 1, 0) if self.integer(0, 9) == 9 else (2, 3, 1, 4)
        return tuple(self.pick(lengths) for _ in range(self.pick((2, 1, 3, 0, 2)) if ndim is None else ndim))

    def type(self):
        """The graph's favourite type, or any."""
        return self.favourite if self.integer(0, 3) else TensorType(self.shape(), self.pick(self.types))

    def input(self, type=None):
        type = type or self.type()
        value = self.b.input(type, f"x{len(self.b.inputs)}" if self.integer(0, 1) else "")
        self.values.append(value)
        return value

    def step(self):
        try:
            made = self.pick(self.steps)()
        except JitgradError:
            return
        if made is not None:
            self.values.extend(made)

    def emit(self, op, *operands):
        types = op.infer(*[v.type for v in operands])
        fit = all(t.numel <= MAX_ELEMENTS and t.dtype in self.types for t in types)
        return self.b.emit(op, *operands) if fit else None

    def like(self, type):
        """A value of that type: one that is there, or else a number."""
        there = [v for v in self.values if v.type == type]
        if there and self.integer(0, 5):
            return self.pick(there[-4:])
        return self.b(Full(type.shape, type.dtype, self.number(type.dtype), type.device))

    def number(self, dtype):
        numbers = NUMBERS if dtype.is_differentiable else (0, 1, -1, 2, 7)
        number = self.pick(numbers if self.awkward else (0, 1, -1, 2, 0.5))
        return number if dtype.is_differentiable else int(number)

    def any(self, min_ndim=0):
        """A value, more often a new one."""
        fitting = [v for v in self.values if v.ndim >= min_ndim]
        return (
            self.pick(fitting[::-1]) if fitting else self.input(TensorType(self.shape(min_ndim), self.pick(self.types)))
        )

    def apply_pointwise(self):
        if not self.pointwise:
            return None
        op = self.pick(self.pointwise)()
        x = self.any()
        if isinstance(op, DIVISIONS) and x.type.dtype.kind == "int":
            return self.emit(op, x, self.b(Full(x.shape, x.type.dtype, self.pick((1, 3, -1, -2)))))
        operands = [x, *(self.like(x.type) for _ in range(op.arity - 1))]
        return self.emit(op, *(operands if self.integer(0, 1) else operands[::-1]))

    def where(self):
        x = self.any()
        if dtypes.bool_ not in self.types:
            return None
        condition = self.like(x.type.with_dtype(dtypes.bool_))
        return self.emit(Where(), condition, x, self.like(x.type))

    def convert(self):
        x, target = self.any(), self.pick(self.types)
        if x.type.dtype.is_differentiable and target.kind == "int":
            return None  # out of range the result is not specified
        return self.emit(Convert(target), x)

    def reduce(self):
        if not self.reductions:
            return None
        cls, x = self.pick(self.reductions), self.any()
        axes = tuple(a for a in range(x.ndim) if self.integer(0, 1))
        return self.emit(cls(axes=axes, keepdim=bool(self.integer(0, 1))), x)

    def along_an_axis(self):
        x = self.any(1)
        return self.emit(self.pick(self.along_axis)(axis=self.integer(0, x.ndim - 1)), x) if self.along_axis else None

    def reshape(self):
        x = self.any()
        shape, left = [], x.size
        for _ in range(self.integer(0, 3)):
            divisors = [n for n in range(1, left + 1) if left % n == 0] or [0]
            shape.append(self.pick(divisors))
            left = left // shape[-1] if shape[-1] else 0
        return self.emit(Reshape((*shape, left) if left != 1 or not shape else tuple(shape)), x)

    def permute(self):
        x = self.any()
        return self.emit(Permute(self.pick(tuple(itertools.permutations(range(x.ndim))))), x)

    def flip(self):
        x = self.any()
        return self.emit(Flip(tuple(a for a in range(x.ndim) if self.integer(0, 1))), x)

    def a_slice(self, shape):
        starts, sizes, steps = [], [], []
        for n in shape:
            step = self.pick((1, 1, 2, -1, -2)) if n else 1
            size = self.integer(0, (n + abs(step) - 1) // abs(step)) if n else 0
            span = abs(step) * (size - 1) if size else 0
            first = self.integer(0, max(0, n - 1 - span))
            starts.append((first + span if step < 0 else first) if size else 0)
            sizes.append(size)
            steps.append(step)
        return Slice(tuple(starts), tuple(sizes), tuple(steps))

    def slice(self):
        x = self.any()
        return self.emit(self.a_slice(x.shape), x)

    def broadcast(self):
        x = self.any()
        front = self.shape(self.integer(0, 1))
        return self.emit(BroadcastTo((*front, *(self.pick((n, 3)) if n == 1 else n for n in x.shape))), x)

    def diagonal(self):
        x = self.any(2)
        axis1, axis2 = self.pick(tuple(itertools.permutations(range(x.ndim), 2)))
        return self.emit(Diagonal(self.integer(-2, 2), axis1, axis2), x)

    def concat(self):
        x = self.any(1)
        axis = self.integer(0, x.ndim - 1)
        fits = [v for v in self.values if v.type.dtype is x.type.dtype and _agree(v.shape, x.shape, axis)]
        return self.emit(Concat(axis), x, *(self.pick(fits) for _ in range(self.integer(0, 2))))

    def pad(self):
        x = self.any()
        low, high = (tuple(self.integer(0, 1) for _ in x.shape) for _ in range(2))
        return self.emit(Pad(low, high), x, self.like(TensorType((), x.type.dtype)))

    def matmul(self):
        x = self.any(2)
        fits = [v for v in self.values if v.ndim == x.ndim and v.type.dtype is x.type.dtype]
        fits = [v for v in fits if v.shape[-2] == x.shape[-1] and v.shape[:-2] == x.shape[:-2]]
        return self.emit(MatMul(), x, self.pick(fits or [self.like(_transposed(x.type))]))

    def write(self):
        x = self.any()
        last = tuple(range(x.ndim))
        view = self.pick((self.a_slice(x.shape), Permute(last[::-1]), Flip(last), BroadcastTo((2, *x.shape))))
        views = (view,) if self.integer(0, 3) else ()
        (region,) = view.infer(x.type) if views else (x.type,)
        made = self.emit(WriteView(views), x, self.like(region))
        return self.emit(view, *made) if made is not None and self.integer(0, 1) else made  # read back

    def index_select(self):
        x = self.any(1)
        axis = self.integer(0, x.ndim - 1)
        count = self.integer(0, 3) if x.shape[axis] else 0
        index = self.random.integers(0, max(1, x.shape[axis]), count, dtype=np.int64)
        return self.emit(IndexSelect(axis), x, self.b(Constant(Literal(index))))

    def gather(self):
        x = self.any(1)
        axis = self.integer(0, x.ndim - 1)
        shape = tuple(self.integer(0, n) for n in x.shape)
        index = self.random.integers(0, max(1, x.shape[axis]), shape, dtype=np.int64)
        return self.emit(Gather(axis), x, self.b(Constant(Literal(index))))

    def draw_uniform(self):
        seed, offset = (self.like(TensorType((), dtypes.int64)) for _ in range(2))
        return self.emit(RandomUniform(self.shape(), self.pick((dtypes.float32, dtypes.float64))), seed, offset)

    def constant(self):
        type = self.type()
        which = self.integer(0, 3)
        if which == 0:
            return self.emit(Constant(Literal(self.array(type))))
        if which == 1 and type.ndim and type.dtype.kind != "bool":
            return self.emit(Iota(type.shape, type.ndim - 1, type.dtype))
        return self.emit(Full(type.shape, type.dtype, self.number(type.dtype)))

    def array(self, type):
        """Random numbers, some of them awkward."""
        shape, dtype = type.shape, type.dtype
        if dtype.kind == "bool":
            return self.random.integers(0, 2, shape).astype(np.bool_)
        if dtype.kind == "int":
            small = self.random.integers(0 if not dtype.is_signed else -4, 5, shape)
            extremes = np.iinfo(dtype.np)
            edge = np.where(self.random.random(shape) < 0.5, extremes.min, extremes.max)
            rare = self.random.random(shape) < (0.1 if self.awkward else 0.0)
            return np.where(rare, edge, small).astype(dtype.np)
        if dtype.is_complex:
            parts = self.array(TensorType((*shape, 2), dtypes.to_real(dtype)))
            return parts.view(dtype.np).reshape(shape)
        return self.floats(shape, dtype)

    def floats(self, shape, dtype):
        plain = self.random.standard_normal(shape).astype(dtype.np)
        if not self.awkward:
            return plain
        tiny = np.asarray([1], f"u{dtype.itemsize}").view(dtype.np)  # the smallest denormal
        pool = np.concatenate([np.asarray(AWKWARD).astype(dtype.np), tiny, -tiny])
        chosen = pool[self.random.integers(0, len(pool), shape)]
        return np.where(self.random.random(shape) < 0.4, chosen, plain)

    def finish(self):
        used = {v for node in self.b.nodes for v in node.operands}
        leaves = [v for v in self.values if v not in used]
        outputs = leaves[-3:] + ([self.any()] if self.integer(0, 2) == 0 else [])
        return self.b.build(outputs), [self.array(v.type) for v in self.b.inputs]


def _agree(a, b, axis):
    return len(a) == len(b) and all(n == m for i, (n, m) in enumerate(zip(a, b, strict=True)) if i != axis)


def _transposed(type):
    return type.with_shape((*type.shape[:-2], type.shape[-1], type.shape[-2]))
