"""Sizes alone compile nothing: families of functions, forward and backward, at sizes they have not met."""

import numpy as np
import pytest
from programs_compared import kernels_of_later_sizes

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad.codegen import compile as codegen
from jitgrad.codegen.resize import Table


def grid(*shape):
    n = int(np.prod(shape))
    return jg.tensor(np.linspace(-2, 3, n, dtype="f4").reshape(shape))


def whole(count, *shape):
    return jg.arange(int(np.prod(shape))).reshape(shape) % count


def with_gradients(f):
    """What `f` gives, and the gradients in its floating-point arguments."""

    def g(*args):
        args = [a.detach().requires_grad_() if a.dtype.is_floating_point else a for a in args]
        y = f(*args)
        return y.detach(), *jg.autograd.grad((y * y).sum(), [a for a in args if a.requires_grad])

    return g


def picture(f, *sizes, kernel=(3, 3), groups=lambda c: 1):
    """A convolution at some (images, channels, lengths..., output channels)."""
    return f, [(grid(n, c, *lengths), grid(o, c // groups(c), *kernel) / 9) for n, c, *lengths, o in sizes]


def transposed(f, *sizes):
    """A transposed convolution likewise."""
    return f, [(grid(n, c, *lengths), grid(c, o, 4, 4) / 16) for n, c, *lengths, o in sizes]


PICTURES = (
    (3, 16, 20, 21, 24), (4, 17, 22, 23, 25), (1, 16, 20, 20, 24), (2, 18, 33, 7, 32), (2, 20, 5, 64, 9),
    (2, 64, 8, 8, 100), (1, 48, 6, 130, 16), (2, 12, 12, 12, 12), (9, 16, 7, 7, 64),
)  # fmt: skip
FEW = ((2, 3, 20, 21, 8), (3, 4, 22, 23, 7), (1, 5, 9, 64, 3), (2, 16, 7, 7, 8), (2, 3, 40, 5, 2))
DEPTHWISE = ((2, 6, 20, 21, 6), (3, 7, 22, 23, 7), (1, 6, 8, 64, 6), (2, 40, 7, 7, 40), (2, 24, 60, 5, 24))

CONVOLUTIONS = {
    "conv2d": picture(lambda x, w: F.conv2d(x, w, padding=1), *PICTURES),
    "conv2d of half types": (
        lambda x, w: F.conv2d(x.bfloat16(), w.bfloat16(), padding=1).float(), picture(None, *PICTURES)[1]
    ),
    "conv2d, no padding": picture(F.conv2d, *PICTURES),
    "conv2d, strided": picture(lambda x, w: F.conv2d(x, w, stride=2, padding=1), *PICTURES),
    "conv2d, dilated": picture(lambda x, w: F.conv2d(x, w, dilation=2, padding=2), *PICTURES),
    "conv2d, bias and relu": picture(lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], padding=1).relu(), *PICTURES),
    "conv2d, groups": picture(
        lambda x, w: F.conv2d(x, w, padding=1, groups=2),
        (2, 32, 10, 11, 40), (3, 36, 12, 13, 44), (1, 32, 9, 30, 64), (2, 80, 7, 7, 32), groups=lambda c: 2,
    ),
    "conv2d, few channels": picture(lambda x, w: F.conv2d(x, w, padding=1), *FEW),
    "conv2d, depthwise": picture(
        lambda x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]), *DEPTHWISE, groups=lambda c: c
    ),
    "conv2d, depthwise, strided": picture(
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=x.shape[1]), *DEPTHWISE, groups=lambda c: c
    ),
    "conv1d": picture(
        lambda x, w: F.conv1d(x, w, padding=2), (3, 16, 50, 24), (4, 17, 60, 20), (1, 16, 1000, 64), (2, 40, 9, 30),
        kernel=(5,),
    ),
    "conv3d": picture(
        lambda x, w: F.conv3d(x, w, padding=1), (2, 16, 5, 6, 7, 24), (3, 17, 6, 7, 8, 20), (1, 16, 4, 9, 12, 40),
        kernel=(3, 3, 3),
    ),
    "conv_transpose2d": transposed(
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (2, 16, 5, 6, 24), (3, 17, 6, 7, 20),
        (1, 16, 4, 9, 40), (2, 64, 8, 8, 16),
    ),
}  # fmt: skip


def rows(*sizes):
    return [(grid(*s),) for s in sizes]


PLANES = rows((20, 30), (21, 31), (15, 40), (300, 17), (13, 600), (64, 65))
# Overlapping windows of the last ones fill their axes otherwise, and are computed again where others are kept.
STACKS = rows((3, 4, 20, 22), (2, 5, 21, 23), (4, 6, 30, 18), (6, 3, 40, 64), (5, 8, 17, 33))
LABELS = [(grid(n, c), whole(c, n)) for n, c in [(20, 30), (21, 31), (7, 100), (300, 20), (64, 1000)]]
TABLES = [(grid(v, d), whole(v, *n)) for v, d, n in [
    (50, 16, (4, 7)), (51, 17, (5, 8)), (1000, 40, (2, 30)), (60, 33, (16, 16)), (20, 64, (3, 3)),
]]  # fmt: skip
HEADS = [tuple(grid(b, h, t, d) for _ in range(3)) for b, h, t, d in [
    (2, 3, 20, 16), (3, 4, 21, 17), (4, 2, 64, 24), (2, 5, 130, 48), (5, 3, 40, 14),
]]  # fmt: skip
PLACES = [(grid(n, m), whole(m, n, k)) for n, m, k in [(20, 30, 5), (21, 31, 6), (7, 90, 40), (64, 20, 9)]]

OTHERS = {
    "softmax": (lambda x: x.softmax(-1), PLANES),
    "softmax of columns": (lambda x: x.softmax(0), PLANES),
    "log_softmax": (lambda x: F.log_softmax(x, -1), PLANES),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), PLANES),
    "rms": (lambda x: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt(), PLANES),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), STACKS),
    "group_norm": (lambda x: F.group_norm(x[:, :2], 2), STACKS),
    "instance_norm": (F.instance_norm, STACKS),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), STACKS),
    "max_pool2d, overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), STACKS[:3]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2), STACKS[:4]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), STACKS),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), STACKS),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), STACKS),
    "cross_entropy": (F.cross_entropy, LABELS),
    "nll of log_softmax": (lambda x, y: F.nll_loss(F.log_softmax(x, 1), y), LABELS),
    "mse": (lambda x: F.mse_loss(x, x.flip(0)), PLANES),
    "embedding": (lambda table, k: F.embedding(k, table), TABLES),
    "attention": (F.scaled_dot_product_attention, HEADS),
    "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), HEADS),
    "written attention": (lambda q, k, v: (q @ k.mT * 0.2).softmax(-1) @ v, HEADS),
    "gather": (lambda x, k: x.gather(1, k), PLACES),
    "scatter_add": (lambda x, k: x.scatter_add(1, k, x[:, : k.shape[1]]), PLACES[:2] + PLACES[3:]),
    "index_select": (lambda x, k: x.index_select(1, k[0]), PLACES),
    "cumsum": (lambda x: x.cumsum(-1), PLANES),
    "cumsum of columns": (lambda x: x.cumsum(0), PLANES),
    "cumprod": (lambda x: (x * 0.3).cumprod(-1), PLANES),
    "sort": (lambda x: x.sort(-1).values, PLANES),
    "topk": (lambda x: x.topk(3, -1).values, PLANES),
    "amax and amin": (lambda x: x.amax(-1) - x.amin(-1), PLANES),
    "logsumexp": (lambda x: x.logsumexp(-1), PLANES),
    "var and mean": (lambda x: x.var(0) * x.mean(0), PLANES),
    "norm": (lambda x: x.norm(dim=-1), PLANES),
    "transposition": (lambda x: x.t() * 2 + x.t().flip(0), PLANES),
    "flips": (lambda x: x.flip(1) * x.flip(0), PLANES),
    "pads": (lambda x: F.pad(x, (1, 2, 3, 4)), PLANES),
    "joined": (lambda x: jg.cat([x, x * 2, x], 0), PLANES),
    "stacked": (lambda x: jg.stack([x, x * 2], 1).reshape(-1, x.shape[1]), PLANES),
    "broadcast": (lambda x: x * x[0] + x[:, :1], PLANES),
    "triangles": (lambda x: x.tril() + x.triu(1), PLANES),
    "einsum": (lambda x: jg.einsum("ij,ik->jk", x, x), PLANES),
    "unfold": (lambda x: x.unfold(0, 3, 2).sum(-1), PLANES),
}  # fmt: skip


def batches(*sizes, of=(64, 33, 1, 7, 0)):
    """Arguments of which some have `None` for a batch; those of whole numbers below `c` are `(c, shape)`."""

    def argument(s, n):
        if isinstance(s[-1], tuple):
            return whole(s[0], *[n if k is None else k for k in s[1]])
        return grid(*[n if k is None else k for k in s])

    return [tuple(argument(s, n) for s in sizes) for n in of]


def split_heads(x):
    q = x.reshape(x.shape[0], x.shape[1], 2, 15).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(x.shape)


WIDE, HEAD, WORDS, MAPS = (None, 30), (None, 3, 20, 16), (None, 9, 12), (None, 4, 20, 22)
BATCHES = {
    **{name: (OTHERS[name][0], [WIDE]) for name in (
        "softmax", "softmax of columns", "log_softmax", "layer_norm", "rms", "mse", "cumsum", "cumsum of columns",
        "sort", "topk", "amax and amin", "logsumexp", "var and mean", "norm", "flips", "pads", "joined", "stacked",
        "triangles",
    )},
    **{name: (OTHERS[name][0], [MAPS]) for name in (
        "batch_norm", "group_norm", "instance_norm", "max_pool2d", "max_pool2d, overlapping", "avg_pool2d",
        "adaptive_avg_pool2d", "nearest", "bilinear",
    )},
    **{name: (OTHERS[name][0], [WIDE, (30, (None,))]) for name in ("cross_entropy", "nll of log_softmax")},
    **{name: (OTHERS[name][0], [HEAD] * 3) for name in ("attention", "causal attention")},
    **{name: (CONVOLUTIONS[name][0], [(None, 16, 12, 13), (24, 16, 3, 3)]) for name in (
        "conv2d", "conv2d, strided", "conv2d, bias and relu",
    )},
    "conv2d, few channels": (CONVOLUTIONS["conv2d, few channels"][0], [(None, 3, 12, 13), (8, 3, 3, 3)]),
    "conv2d, depthwise": (CONVOLUTIONS["conv2d, depthwise"][0], [(None, 6, 12, 13), (6, 1, 3, 3)]),
    "embedding": (OTHERS["embedding"][0], [(50, 16), (50, (None, 7))]),
    "gather": (OTHERS["gather"][0], [WIDE, (30, (None, 5))]),
    "two layers": (lambda x, w, v: (x @ w).relu() @ v, [(None, 12), (12, 20), (20, 5)]),
    "linear over words": (lambda x, w, b: F.linear(x, w, b).tanh(), [WORDS, (20, 12), (20,)]),
    "heads": (split_heads, [(*WORDS[:2], 30)]),
    "flattened": (lambda x: (x * 2).flatten(1) + 1, [MAPS]),
    "rows of planes": (lambda x: (x * 2).flatten(0, 1).softmax(-1), [MAPS]),
    "accuracy": (lambda x, y: (x.argmax(1) == y).float().mean() * x.sum(), [WIDE, (30, (None,))]),
    "sequence first": (lambda x: x.transpose(0, 1).contiguous() * 2, [WORDS]),
}  # fmt: skip


def places_of(t):
    """Where elements are: strides of axes along which there are several."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1 and t.numel()]


def check_without_compiling(f, compiled, inputs, *, compiles=False):
    if compiles:
        found = compiled(*inputs)
    else:
        with jg.assert_no_compile():
            found = compiled(*inputs)
    for got, want in zip(found, f(*inputs), strict=True):
        assert got.shape == want.shape and places_of(got) == places_of(want)
        bound = 1e-3 * max(1, np.abs(want.numpy()).max(initial=0))
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-3, bound)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("sizes", [(64, 33, 1, 7, 1), (1, 64, 1, 33, 7)], ids=["many first", "one first"])
def test_a_batch_of_one_compiles_nothing(name, sizes):
    """After two sizes, of which one may be the batch of one."""
    f, shapes = BATCHES[name]
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        compiled = jg.compile(g)
        for k, inputs in enumerate(batches(*shapes, of=sizes)):
            check_without_compiling(g, compiled, inputs, compiles=k < 2)


@pytest.mark.parametrize("name", [n for n in BATCHES if n not in ("amax and amin", "topk")])
@pytest.mark.parametrize("sizes", [(64, 0, 7, 0), (0, 64, 7, 0)], ids=["many first", "none first"])
def test_an_empty_batch_compiles_nothing(name, sizes):
    """And gives what eager code gives."""
    f, shapes = BATCHES[name]
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        compiled = jg.compile(g)
        for n, inputs in zip(sizes, batches(*shapes, of=sizes), strict=True):
            try:
                g(*inputs)
            except Exception as error:  # some have no value for no samples
                with pytest.raises(type(error)):
                    compiled(*inputs)
            else:
                check_without_compiling(g, compiled, inputs, compiles=n > 0)


# What a function does at some sizes only: broadcasts that have nothing to repeat, slices that reach the end, parts that
# are empty, parts that are small or large beside the whole.
PARTS = {
    "beside the first column": lambda x: x * x[:, :1],
    "beside the first row": lambda x: x * x[:1],
    "beside both": lambda x: x * x[:1] + x[:, :1],
    "up to the eighth": lambda x: x.exp()[:8, :6].tanh(),
    "joined to the first": lambda x: jg.cat([x.exp(), x[:1].sin()], 0),
    "padded": lambda x: F.pad(x.exp(), (1, 2, 3, 4)),
    "half": lambda x: x[: (x.shape[0] + 1) // 2].exp(),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("sizes", [((1, 30), (30, 1), (64, 13), (8, 64), (40, 8)), ((64, 65), (1, 30), (9, 7), (7, 1))])
def test_parts_of_any_share_compile_nothing(name, sizes, monkeypatch):
    """After two sizes in general position, of a function that is not mixed up with others of one structure."""
    f = PARTS[name]
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        monkeypatch.setattr(codegen, "TEMPLATES", Table())
        compiled = jg.compile(g)
        for k, inputs in enumerate(rows((20, 13), (33, 17), *sizes)):
            check_without_compiling(g, compiled, inputs, compiles=k < 2)


SQUARES = rows((64, 64), (40, 64), (20, 30), (30, 14), (64, 64))


@pytest.mark.parametrize("name", [n for n in OTHERS if OTHERS[n][1] is PLANES])
def test_squares_first_and_then_oblongs_compile_nothing(name):
    """Lengths that are equal by chance: at the second size they are told apart."""
    f = OTHERS[name][0]
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        compiled = jg.compile(g)
        for k, inputs in enumerate(SQUARES):
            check_without_compiling(g, compiled, inputs, compiles=k < 2)


ROWS = (
    "softmax", "log_softmax", "layer_norm", "rms", "cross_entropy", "nll of log_softmax", "amax and amin", "logsumexp",
    "norm", "softmax of halves",
)  # fmt: skip
LENGTHS = {"long first": (30, 20, 12, 3, 5000, 64, 2), "short first": (7, 3, 12, 13, 5000, 2, 64)}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_any_length_compile_nothing(name, lengths):
    """Short rows lie side by side in registers, and what is kept of longer ones does not fit in a tile."""
    f = (lambda x: x.bfloat16().softmax(-1).float()) if "halves" in name else OTHERS[name][0]
    labelled = OTHERS.get(name, (None, PLANES))[1] is LABELS
    inputs = [(grid(9, n), whole(n, 9)) if labelled else (grid(9, n),) for n in lengths]
    rtol = 3e-2 if "halves" in name else 1e-3
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        assert kernels_of_later_sizes(jg.compile(g), inputs[:2], inputs[2:], rtol) == 0


THIN = {
    "wide first": rows((20, 30), (21, 31), (40, 3), (3, 40), (7, 2), (2, 70), (100, 90)),
    "thin first": rows((20, 3), (5, 41), (21, 31), (3, 40), (70, 2), (100, 90)),
}


@pytest.mark.parametrize("inputs", THIN.values(), ids=THIN)
@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.bfloat16, jg.int64], ids=str)
def test_what_is_transposed_may_be_thin(inputs, dtype):
    """Squares of registers would be empty."""
    g = with_gradients(lambda x: (x.t().to(dtype) * 2 + (x.to(dtype) * 3).t().contiguous() + x.t().flip(0)).float())
    assert kernels_of_later_sizes(jg.compile(g), inputs[:2], inputs[2:], 3e-2) == 0


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *OTHERS])
def test_other_sizes_compile_nothing(name):
    f, inputs = {**CONVOLUTIONS, **OTHERS}[name]
    rtol = 3e-2 if "half" in name else 1e-3
    for g in (lambda *args: (f(*args),), with_gradients(f)):
        assert kernels_of_later_sizes(jg.compile(g), inputs[:2], inputs[2:], rtol) == 0
