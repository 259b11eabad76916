"""Eager ops as native functions: they give, record and refuse what the way in Python does."""

import gc
import sys
import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import fast_path, hot_path, native_ops
from jitgrad.ir.ops.activation import Relu
from jitgrad.ir.ops.arithmetic import Abs, Add, Div, Mul, Neg, Sub
from jitgrad.ir.ops.comparison import Eq, Ge, Gt, Le, Lt, Ne
from jitgrad.ir.ops.math import Exp
from jitgrad.ir.ops.reduction import Sum
from jitgrad.mode import local
from jitgrad.tape import TapeNode

BINARY = [Add(), Sub(), Mul(), Div(), Eq(), Ne(), Lt(), Le(), Gt(), Ge()]
UNARY = [Neg(), Abs(), Relu(), Exp(), Sum((0,), False)]
REFUSED = "left to the general function"
SPECIAL = [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-42, -3e38]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
def native(monkeypatch):
    """A maker of methods that are native from the second call on."""
    jg.compile(lambda x: x + 1)(jg.ones(2))

    def make(maker, op, *operands):
        method = maker(op, lambda *_: REFUSED)
        with monkeypatch.context() as patch:
            patch.setattr(hot_path, "CALLS", 1)
            patch.setattr(native_ops, "_PAYS", 1)
            method(*operands)
        functions = [c.cell_contents for c in method.__closure__]
        assert any(type(f).__name__ == "builtin_function_or_method" for f in functions)
        return method

    return make


def same_data(a, b):
    if isinstance(a, np.ndarray):
        a, b = (np.where(x != x, np.nan, x) for x in (a, b))  # of NaN, any will do
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a is b or (type(a) is type(b) and a == b)


def same_result(got, want):
    """Whether two results, and the nodes behind them, are alike."""
    if isinstance(want, str) or isinstance(got, str):
        assert got is want
        return
    assert type(got) is jg.Tensor
    assert same_data(got._data, want._data)
    assert got.requires_grad == want.requires_grad
    assert (got._index, got._view, got._grad, got._hooks) == (0, None, None, None)
    a, b = got._node, want._node
    if b is None:
        assert a is None and got._storage is None
        return
    assert (a.op, a.kept, a.edges, a.hooks, a.location) == (b.op, b.kept, b.edges, b.hooks, b.location)
    assert a.seq != b.seq
    for slot, edge in enumerate(b.edges):
        if edge is None and (b.saved[slot] is None or not hasattr(b.saved[slot], "dtype")):
            assert a.types[slot] == b.types[slot]
    assert all(same_data(x, y) for x, y in zip(a.saved, b.saved, strict=True))
    for x, y in zip(a.owners, b.owners, strict=True):
        assert (x is got._storage) if y is want._storage and y is not None else x is y
    assert (a.versions or (0,) * len(a.owners)) == (b.versions or (0,) * len(b.owners))


def tensors(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    out = []
    for shape in shapes:
        x = rng.choice(SPECIAL, shape).astype(dtype)
        out.append(jg.from_numpy(np.asarray(x)))
    return out


def leading(x, kind):
    """The tensor with a history of a kind."""
    if kind == "leaf":
        return x.clone().requires_grad_()
    if kind == "node":
        return x.clone().requires_grad_() * 2
    if kind == "written":
        return x.clone().requires_grad_().mul(2).mul_(3)
    if kind == "second":
        return jg.stack([x, x]).requires_grad_().unbind(0)[1]
    if kind == "parameter":
        return jg.nn.Parameter(x.clone())
    return x


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shapes", [((), ()), ((3,), (3,)), ((), (2, 3)), ((2, 3), (1,)), ((1, 1), (4,)), ((2, 1), (3,)), ((0,), (0,)),
               ((64,), (64,)), ((65,), (1,)), ((1000,), (1000,)), ((3,), (4,)), ((0, 3), (1,))],
)  # fmt: skip
def test_two_tensors(native, op, dtype, shapes):
    x, y = tensors(*shapes, dtype=dtype)
    python = fast_path.binary_method(op, lambda *_: REFUSED)
    same_result(native(fast_path.binary_method, op, x, x)(x, y), python(x, y))


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
@pytest.mark.parametrize("number", [2.0, 2, -0.0, 0, np.inf, np.nan, 1e39, 1 << 24, (1 << 24) + 1, -1, 1 << 70, True])
@pytest.mark.parametrize("count", [3, 100])
def test_numbers(native, op, number, count):
    (x,) = tensors((count,))
    for t in (x, x.double(), x.clone().requires_grad_()):
        python = fast_path.binary_method(op, lambda *_: REFUSED)
        same_result(native(fast_path.binary_method, op, x, x)(t, number), python(t, number))
        python = fast_path.reflected_method(op, lambda *_: REFUSED)
        same_result(native(fast_path.reflected_method, op, x, 1.0)(t, number), python(t, number))


@pytest.mark.parametrize("op", [Add(), Sub(), Lt()], ids=lambda op: op.name)
@pytest.mark.parametrize("other", [3, -1, 1 << 62, 1 << 70, 2.5, True, "tensor", "float32"])
def test_integers(native, op, other):
    x = jg.tensor([1, -5, (1 << 63) - 1])
    y = {"tensor": jg.tensor([7, 2, 9]), "float32": jg.ones(3)}.get(other, other)
    allowed = (frozenset([np.dtype(np.int64)]),) * 2
    python = fast_path.binary_method(op, lambda *_: REFUSED, *allowed)
    method = native(lambda op, slow: fast_path.binary_method(op, slow, *allowed), op, x, x)
    same_result(method(x, y), python(x, y))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (100,), (20000,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_one_tensor(native, op, shape, dtype):
    (x,) = tensors(shape) if dtype != np.int64 else [jg.ones(shape, dtype=jg.int64)]
    if dtype == np.float64:
        x = x.double()
    python, one = fast_path.unary_method(op, lambda *_: REFUSED), jg.ones(3)
    for kind in ("none", "leaf", "node") if dtype != np.int64 else ("none",):
        t = leading(x, kind)
        same_result(native(fast_path.unary_method, op, one)(t), python(t))


@pytest.mark.parametrize("op", [Add(), Mul(), Div(), Lt()], ids=lambda op: op.name)
@pytest.mark.parametrize("first", ["none", "leaf", "node", "written", "second", "parameter"])
@pytest.mark.parametrize("second", ["none", "leaf", "node", "written", "second"])
@pytest.mark.parametrize("count", [3, 100])
def test_recorded(native, op, first, second, count):
    x, y = (leading(t, kind) for t, kind in zip(tensors((count,), (count,)), (first, second), strict=True))
    python = fast_path.binary_method(op, lambda *_: REFUSED)
    method = native(fast_path.binary_method, op, jg.ones(3), jg.ones(3))
    want = python(x, y)
    same_result(method(x, y), want)
    with jg.no_grad():
        assert not method(x, y).requires_grad


@pytest.mark.parametrize("strange", ["strided", "dtypes", "object", "class", "complex"])
def test_what_it_does_not_take(native, strange):
    x = jg.ones(4)
    y = {
        "strided": jg.ones(8)[::2], "dtypes": x.double(), "object": "text", "class": np.float32(1), "complex": 1j,
    }[strange]  # fmt: skip
    python = fast_path.binary_method(Add(), lambda *_: REFUSED)
    same_result(native(fast_path.binary_method, Add(), x, x)(x, y), python(x, y))


def test_tracing_and_watching(native):
    method = native(fast_path.binary_method, Mul(), jg.ones(3), jg.ones(3))
    x = jg.ones(3, requires_grad=True)
    assert jg.compile(lambda t: (t * 2).sum())(x).item() == 6
    with jg.autograd.set_detect_anomaly(True):
        assert method(x, x).grad_fn.location is not None
    packed = []
    with jg.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        method(x, x)
    assert packed
    assert isinstance(jg.vmap(lambda t: t * t)(jg.ones(2, 3)), jg.Tensor)


def test_nothing_is_leaked(native):
    method = native(fast_path.binary_method, Mul(), jg.ones(3), jg.ones(3))
    relu = native(fast_path.unary_method, Relu(), jg.ones(3))
    x, y = jg.ones(3, requires_grad=True), jg.ones(3)
    y.add_(1)  # which counts
    many, number = jg.ones(200, requires_grad=True), 2.5
    watched = [x, y, x._data, y._data, many, number, Mul(), TapeNode, jg.Tensor, np.dtype(np.float32), ()]
    watched += [fast_path.NOTHING, local.mode]

    def work():
        for _ in range(1000):
            relu(method(method(x, y), x))
            method(method(many, number), y[:1])
            method(y, y)
            method(x, jg.ones(4))

    def kept():
        gc.collect()
        return [*[sys.getrefcount(w) for w in watched], len(gc.get_objects()) // 10]

    def grown():
        before = kept()
        work()
        return [abs(b - a) for a, b in zip(before, kept(), strict=True)]

    work()
    rounds = [grown() for _ in range(3)]  # what leaks does so in each; what a process makes once falls into one
    assert all(min(of_one) < 50 for of_one in zip(*rounds, strict=True)), rounds
