"""Arguments of every form are right on every call, and sizes alone compile nothing."""

import dataclasses
import tracemalloc
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from programs_compared import agree, kernels_of_later_sizes

import jitgrad as jg

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Batch:
    x: jg.Tensor
    scale: float = 1.0
    mask: jg.Tensor | None = None


def grid(*shape, start=-2.0):
    n = int(np.prod(shape))
    return jg.tensor(np.linspace(start, 3, max(n, 1), dtype="f4")[:n].reshape(shape))


def check(f, *calls):
    """Eager and compiled agree on each call, twice over."""

    def program(compile):
        g = compile(f)
        for _ in range(2):
            for args in calls:
                is_named = len(args) == 2 and isinstance(args[1], dict)
                yield g(*args[0], **args[1]) if is_named else g(*args)

    agree(program)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_axes_in_any_order_in_memory(order):
    def lying_so(*shape):
        held = grid(*[shape[a] for a in order])
        return held.permute(*np.argsort(order).tolist())

    def f(x, y):
        z = x * 2 + y
        return z, z.sum(0), x.amax((0, 2)), (x * y).sum(), z.softmax(-1), x.cumsum(1), x.permute(2, 0, 1)

    shapes = [(3, 4, 5), (30, 4, 5), (3, 40, 50), (1, 4, 5), (3, 0, 5)]
    check(f, *[(x, y) for s in shapes for x in (lying_so(*s), grid(*s)) for y in (lying_so(*s), grid(*s))])

    def many(x):
        return x.sum(-1), x.exp()

    compiled = jg.compile(many)
    for _ in range(40):  # often enough to be called the shortest way
        compiled(lying_so(3, 4, 5))
    for x in (lying_so(3, 4, 5) + 1, grid(3, 4, 5), grid(3, 4, 10)[..., ::2], lying_so(3, 4, 5)):
        for got, want in zip(compiled(x), many(x), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
            assert got.stride() == want.stride()


def sliced(*shape, gap=3):
    """Rows with gaps of NaN between them."""
    held = jg.full((*shape[:-1], shape[-1] + gap), float("nan"))
    held[..., 1 : shape[-1] + 1] = grid(*shape)
    return held[..., 1 : shape[-1] + 1]


@pytest.mark.parametrize(
    "lying",
    [sliced, lambda *s: sliced(*reversed(s)).permute(2, 1, 0), lambda m, n, k: sliced(m, k, n + 1).mT[:, 1:],
     lambda m, n, k: sliced(m, n + 2, k)[:, 1:-1], lambda m, n, k: sliced(m, n, k + 2)[..., 2:]],
)  # fmt: skip
def test_gaps_between_rows(lying):
    def f(x, y):
        z = x * 2 + y
        return z, z.sum(0), x.amax((0, 2)), (x * y).sum(), x.softmax(-1), x.cumsum(1), x @ y.mT, x.reshape(-1), x

    shapes = [(3, 4, 5), (30, 4, 5), (3, 40, 50), (1, 4, 5), (3, 4, 1), (3, 0, 5)]
    check(f, *[(x, y) for s in shapes for x in (lying(*s), grid(*s)) for y in (lying(*s), grid(*s))])
    compiled = jg.compile(lambda x: x.sum(-1) + x.exp()[..., 0])
    for _ in range(40):  # often enough to be called the shortest way
        compiled(lying(3, 4, 5))
    for x in (lying(3, 4, 5) + 1, lying(3, 4, 5), grid(3, 4, 5), sliced(3, 4, 5, gap=6)):
        want = (x.sum(-1) + x.exp()[..., 0]).numpy()
        np.testing.assert_allclose(compiled(x).numpy(), want, rtol=1e-6, atol=1e-5)  # some cancel


def test_gaps_may_end_where_memory_does():
    """Also where elements are not aligned, so that they are copied."""
    for start in (0, 1):
        memory = np.frombuffer(bytearray(start + 4 * (2 * 7 + 4)), np.uint8)[start:].view(np.float32)
        memory[:] = np.arange(memory.size)
        x = jg.from_numpy(np.lib.stride_tricks.as_strided(memory, (3, 4), (28, 4)))
        f = jg.compile(lambda x: (x.sum(), x * 2, x.softmax(-1)))
        for _ in range(3):
            for got, want in zip(f(x), (x.sum(), x * 2, x.softmax(-1)), strict=True):
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_gaps_are_not_written():
    def f(x, y):
        x.mul_(2)
        y[:, 1:] += x.sum()
        return x + y

    compiled, (xs, ys) = jg.compile(f), [[jg.ones(6, 9), jg.ones(6, 9)] for _ in range(2)]
    for _ in range(40):  # often enough to be called the shortest way
        got, want = compiled(xs[0][:, 1:5], ys[0].t()[:6, 1:5]), f(xs[1][:, 1:5], ys[1].t()[:6, 1:5])
        xs[0].clamp_(-1e3, 1e3), xs[1].clamp_(-1e3, 1e3)
        for a, b in ((got, want), xs, ys):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_sliced_arguments_of_other_sizes_compile_nothing():
    def f(x, y):
        return x.sum(0), (x * 2).softmax(-1), x @ y, x + 1

    calls = [(sliced(m, n, gap=gap), grid(n, 8)) for m, n, gap in [(30, 40, 7), (50, 40, 7), (31, 57, 12), (99, 20, 2)]]
    assert kernels_of_later_sizes(jg.compile(f), calls[:1], calls[1:]) == 0


@pytest.mark.parametrize("lying", [lambda x: x.t(), lambda x: x[:, 3:-4]])
def test_arguments_that_lie_otherwise_are_not_copied(lying):
    f, x = jg.compile(lambda x: x.sum(0)), lying(jg.zeros(1000, 1000))
    f(x)
    tracemalloc.start()
    try:
        f(x)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_transposed_arguments_of_other_sizes_compile_nothing():
    def f(x, y):
        return x.sum(0), (x * 2).softmax(-1), x @ y, x + 1

    sizes = [(30, 40), (50, 40), (31, 57), (100, 20)]
    calls = [(grid(m, n).t(), grid(m, 8)) for n, m in sizes]
    assert kernels_of_later_sizes(jg.compile(f), calls[:1], calls[1:]) == 0


def test_shapes_and_ranks():
    def f(x):
        y = (x * 2).tanh() + x.sum()
        return y, y.flatten().flip(0), y.unsqueeze(0)

    shapes = [
        (3, 4),
        (4, 3),
        (1, 4),
        (3, 1),
        (1, 1),
        (0, 4),
        (3, 0),
        (12,),
        (1,),
        (0,),
        (),
        (2, 3, 4),
        (1, 1, 1),
        (300, 200),
    ]
    check(f, *[(grid(*s),) for s in shapes])


def test_dtypes():
    def f(x):
        return x * 2 + 1, x.abs().sum(), x > 1

    names = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]
    check(f, *[((grid(3, 4) + 3).to(getattr(jg, n)),) for n in names])


def test_strides():
    def f(x):
        y = x * 2
        x.add_(1)
        return y, x.sum(0), x.reshape(-1)

    base = grid(6, 8)
    views = [
        lambda b: b[:4, :4], lambda b: b[1:5, 2:6], lambda b: b[:4, :4].t(), lambda b: b[::2, ::2][:, :4],
        lambda b: b.flatten()[:16].reshape(4, 4), lambda b: b[:4, 4:].clone(), lambda b: b.flatten()[7:23].view(4, 4),
    ]  # fmt: skip

    def program(compile):
        g = compile(f)
        for _ in range(2):
            for view in views:
                b = base.clone()
                yield g(view(b)), b

    agree(program)


def test_broadcasting_sizes():
    def f(x, y):
        return x * y + x, (x - y).sum(-1)

    check(f, *[(grid(*a), grid(*b)) for a, b in [
        ((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 4), (3, 1)), ((1, 4), (3, 1)), ((3, 4), (4,)), ((1, 1), (3, 4)),
        ((3, 4), ()), ((0, 4), (1, 4)), ((0, 4), (0, 1)), ((2, 3, 4), (3, 1)),
    ]])  # fmt: skip


def test_none_and_values():
    def f(x, bias=None, scale=None):
        y = x if bias is None else x + bias
        return y if scale is None else y * scale

    x = grid(3, 4)
    check(
        f, (x,), (x, x), (x, None, 2.0), ((x,), {"scale": x}), ((x,), {"scale": 3, "bias": x}),
        ((x,), {"bias": x, "scale": 3}), (x, 1.5, True), ((), {"x": x}),
    )  # fmt: skip


def test_keyword_order():
    def f(**named):
        return list(named), sum(v * (k + 1) for k, v in enumerate(named.values()))

    a, b = grid(3), grid(3) * 2
    check(f, ((), {"a": a, "b": b}), ((), {"b": b, "a": a}), ((), {"b": a, "a": b}))


def test_nested_containers():
    def f(tree):
        if isinstance(tree, Pair):
            return Pair(tree.right * 2, tree.left)
        if isinstance(tree, Batch):
            return Batch(tree.x * tree.scale, tree.scale, None if tree.mask is None else tree.x > 0).x
        if isinstance(tree, dict):
            return type(tree)((k, v * 2) for k, v in tree.items())
        return [f(t) if not isinstance(t, jg.Tensor) else t + 1 for t in tree]

    x, y = grid(3), grid(3) - 1
    check(
        f, ([x, y],), ((x, y),), ([x, [y, (x,)]],), ({"a": x, "b": y},), ({"b": x, "a": y},), (OrderedDict(a=x),),
        (Pair(x, y),), (Pair(y, x),), (Batch(x),), (Batch(x, 2.0),), (Batch(y, 3.0, x),), ([],), ([x] * 3,),
        ([(), [x]],),
    )  # fmt: skip


def test_strings_and_other_values():
    def f(x, mode, axis=0, options=()):
        y = getattr(x, mode)(axis)
        return y * len(options), mode

    x = grid(3, 4)
    check(
        f,
        (x, "sum"),
        (x, "mean"),
        (x, "sum", 1),
        (x, "sum", 1, ("a", "b")),
        (x, "sum", -1, ["a"]),
        (x, "sum", 0, {1, 2}),
    )


@pytest.mark.parametrize("combine", ["x * w", "x @ w"])
def test_sizes_alone_compile_nothing(combine):
    @jg.compile
    def f(x, w):
        y = (x @ w if combine == "x @ w" else x * w).relu()
        y = y * 2 if y.sum() > 0 else y
        return (y.tanh() * x.sum()).sum(0), y.mean()

    def of(n, k, m):
        return (grid(n, k), grid(k, m)) if combine == "x @ w" else (grid(n, k), grid(n, k))

    sizes = [(7, 16, 4), (1, 16, 4), (33, 5, 9), (2, 1, 3), (64, 32, 16), (4, 3, 1), (300, 200, 17), (40, 7, 40)]
    assert kernels_of_later_sizes(f, [of(8, 16, 4), of(9, 16, 5)], [of(*s) for s in sizes]) == 0


def products_batched(x, w):
    stack = x.reshape(1, *x.shape) * jg.ones(3, 1, 1, dtype=x.dtype)
    return stack @ w, stack.mT @ stack, stack @ (stack.mT @ stack), w.mT @ stack.mT


def products_transposed(x, w):
    return x @ w, w.mT @ x.mT, x.mT @ (x @ w), x @ (w @ w.mT)


def products_and_epilogues(x, w):
    return (x @ w + w[0]).relu(), ((x @ w) * 2).sum(0), (x @ w).tanh() @ w.mT


def gradients_of_products(x, w):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    return jg.autograd.grad(((x @ w).tanh() @ w.mT).sum(), (x, w))


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.bfloat16])
@pytest.mark.parametrize(
    "f", [products_batched, products_transposed, products_and_epilogues, gradients_of_products],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_other_sizes_of_products(f, dtype):
    def of(n, k, m):
        return (grid(n, k) / (n * k)).to(dtype), (grid(k, m) / (k * m)).to(dtype)

    sizes = [(33, 20, 29), (64, 32, 16), (300, 200, 17), (900, 30, 70), (70, 48, 96), (130, 300, 50)]
    if dtype != jg.bfloat16:  # whose conversions of short rows, and of one row, have kernels of their own
        sizes += [(2, 3, 4), (7, 5, 9)]
        if f in (products_transposed, gradients_of_products):  # what is broadcast along an axis of length 1 is not
            sizes += [(1, 16, 4), (4, 3, 1), (8, 1, 100)]
    compiled = jg.compile(f)
    rtol = 3e-2 if dtype == jg.bfloat16 else 1e-4  # some roundings of eight bits
    assert kernels_of_later_sizes(compiled, [of(20, 18, 30), of(21, 19, 31)], [of(*s) for s in sizes], rtol) == 0


def test_large_arrays_that_decide():
    """NumPy arrays of any size that a function reads as numbers are followed."""

    def program(compile):
        table = np.zeros(20_000)
        f = compile(lambda x: x * float(table[-1]) + float(table.sum()))
        for k in range(4):
            table[-1] = k
            yield f(grid(3))
        table[5] = 0.5
        yield f(grid(3))

    agree(program)


@pytest.mark.parametrize("size", [4, 40_000])
def test_inputs_that_are_the_same_tensor(size):
    def program(compile):
        f = compile(lambda x, y: (x.add_(1), y.mul_(2), x + y))
        for _ in range(2):
            a, b = jg.ones(size), jg.ones(size)
            yield f(a, b), a, b
            yield f(a, a), a
            yield f(a[: size // 2], a[size // 2 :]), a

    agree(program)
