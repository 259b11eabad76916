"""Functions of tensors with dynamic sizes: name -> (function, shapes with names for dynamic axes, sizes to test at)."""

import math

import numpy as np

import jitgrad as jg
from jitgrad.nn import functional as F

B = {"n": 4}
BT = {"n": 4, "t": 6}
WEIGHTS = np.array([1, 2, 3], np.float32)


def attention(x):
    n, t, c = x.shape
    q = x.view(n, t, 2, c // 2).transpose(1, 2)
    scores = q @ q.transpose(-2, -1) / math.sqrt(q.shape[-1])
    causal = jg.ones(t, t).tril() == 0
    scores = scores.masked_fill(causal, float("-inf"))
    return (scores.softmax(-1) @ q).transpose(1, 2).reshape(n, t, c)


def positions(x):
    t = x.size(1)
    angles = jg.arange(t, dtype=jg.float32)[:, None] * jg.exp(jg.arange(0, 4, dtype=jg.float32) * 0.1)
    return x + angles.sin()[None]


def masked_mean(x, mask):
    m = mask.unsqueeze(-1).to(x.dtype)
    return (x * m).sum(1) / m.sum(1).clamp(min=1.0)


def in_halves(x):
    half = x.shape[0] // 2
    return x[:half].sum() - x[half:].sum(), half


def sizes_in_results(x):
    return {"count": x.shape[0], "share": 1.0 / x.numel(), "x": x * 2}


def loop_over_fixed(x):
    h = jg.zeros(x.shape[0], 3)
    for k in range(x.shape[1]):
        h = (h * 0.5 + x[:, k]).tanh()
    return h


FUNCTIONS = {
    "add": (lambda x: x + 1, [("n", 3)], B),
    "mean over the batch": (lambda x: x.mean(0), [("n", 3)], B),
    "mean over all": (lambda x: x.mean(), [("n", "t")], BT),
    "variance": (lambda x: x.var(0, correction=0) + x.std(), [("n", 3)], B),
    "divide by the batch": (lambda x: x.sum() / x.shape[0], [("n", 3)], B),
    "divide by a root": (lambda x: x / x.shape[1] ** 0.5, [("n", "t")], BT),
    "softmax": (lambda x: x.softmax(0) + x.log_softmax(1), [("n", "t")], BT),
    "layer norm": (lambda x: F.layer_norm(x, (5,)), [("n", 5)], B),
    "batch norm in training": (lambda x: F.batch_norm(x, None, None, training=True), [("n", 3, "t")], BT),
    "attention": (attention, [("n", "t", 8)], BT),
    "positions": (positions, [("n", "t", 4)], BT),
    "masked mean": (masked_mean, [("n", "t", 3), ("n", "t", bool)], BT),
    "two arguments": (lambda x, y: x @ y.T, [("n", 3), ("t", 3)], BT),
    "flatten": (lambda x: x.flatten(1).sum(1) + x.flatten().sum(), [("n", 2, "t")], BT),
    "flatten together": (lambda x: x.reshape(-1, 3).sum(1), [("n", "t", 3)], BT),
    "view with sizes": (lambda x: x.view(x.shape[0] * x.shape[1], 3) * 2, [("n", "t", 3)], BT),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 4, -1) * 1, [("n", 3)], B),
    "repeat": (lambda x: x.repeat(2, 3), [("n", "t")], BT),
    "cat with itself": (lambda x: jg.cat([x, x[:, :1]], 1), [("n", "t")], BT),
    "stack": (lambda x: jg.stack([x, -x]), [("n", 3)], B),
    "last row": (lambda x: x[-1] + x[0], [("n", 3)], B),
    "every other": (lambda x: x[:, ::2], [("n", "t")], BT),
    "every third, from 1": (lambda x: x[1::3] * 1, [("n", 3)], B),
    "halves": (in_halves, [("n", 3)], B),
    "differences": (lambda x: x[1:] - x[:-1], [("n", 3)], B),
    "first two": (lambda x: x[:2], [("n", 3)], B),
    "flip and roll": (lambda x: x.flip(0) + jg.roll(x, 1, 0), [("n", 3)], B),
    "pad": (lambda x: F.pad(x, (1, 2)), [("n", "t")], BT),
    "pad to a multiple": (lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 8)), [("n", 3)], B),
    "NumPy's arrays": (lambda x: x * np.arange(3, dtype=np.float32) + WEIGHTS - np.float32(2), [("n", 3)], B),
    "each repeated": (lambda x: x.repeat_interleave(3, 0) + x.repeat_interleave(3).sum(), [("n", 3)], B),
    "convolution": (lambda x: F.conv2d(x, jg.ones(2, 1, 3, 3), stride=2, padding=1), [("n", 1, "h", "w")],
                    {"n": 2, "h": 9, "w": 12}),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), [("n", 1, "h", "w")], {"n": 2, "h": 9, "w": 12}),
    "global pooling": (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), [("n", 2, "h", 6)], {"n": 2, "h": 6}),
    "cumsum": (lambda x: x.cumsum(0), [("n", 3)], B),
    "sort": (lambda x: x.sort(0).values, [("n", 3)], B),
    "argmax": (lambda x: x.argmax(1), [("n", "t")], BT),
    "top of fixed": (lambda x: x.topk(2, 1).values, [("n", 5)], B),
    "one hot": (lambda x: F.one_hot(x.argmax(1), 5), [("n", 5)], B),
    "gather": (lambda x: x.gather(1, x.argsort(1)), [("n", "t")], BT),
    "einsum": (lambda x, y: jg.einsum("ntc,ntd->ncd", x, y), [("n", "t", 2), ("n", "t", 3)], BT),
    "where": (lambda x: jg.where(x > 0, x, x.new_zeros(x.shape)), [("n", "t")], BT),
    "zeros like": (lambda x: jg.zeros_like(x) + jg.ones(x.shape), [("n", "t")], BT),
    "eye": (lambda x: x + jg.eye(x.shape[0]), [("n", "n")], B),
    "arange": (lambda x: x + jg.arange(x.shape[0])[:, None], [("n", 3)], B),
    "linspace": (lambda x: x * jg.linspace(0, 1, x.shape[0])[:, None], [("n", 3)], B),
    "fixed loop": (loop_over_fixed, [("n", 5, 3)], B),
    "sizes in results": (sizes_in_results, [("n", 3)], B),
    "norm": (lambda x: x / x.norm(dim=1, keepdim=True), [("n", 3)], B),
    "outer": (lambda x: x[:, None] * x[None, :], [("n",)], B),
    "diagonal": (lambda x: x.diagonal() * 2, [("n", "n")], B),
    "triangle": (lambda x: x.triu(1), [("n", "t")], BT),
    "resize to another's size": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bilinear"),
                                 [(1, 2, 5, 6), (1, 1, "h", "w")], {"h": 9, "w": 12}),
    "resize what has that size": (lambda x, y: F.interpolate(x, size=y.shape[2:], mode="bicubic"),
                                  [(1, 2, 9, 12), (1, 1, "h", "w")], {"h": 9, "w": 12}),
    "adaptive pooling": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [(1, 2, "h", "w")], {"h": 8, "w": 12}),
    "chunks along it": (lambda x: x.chunk(2), [("n", 3)], B),
    "split along it": (lambda x: x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2]), [("n", 3)], B),
    "resize back": (lambda x: F.interpolate(F.max_pool2d(x, 2), size=x.shape[2:]), [(1, 2, "h", "w")],
                    {"h": 9, "w": 12}),
    "resize corner to corner": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
                                [(1, 2, "h", "w")], {"h": 9, "w": 12}),
    "log of the size": (lambda x: x * math.log(x.shape[0] + 1), [("n", 3)], B),
}  # fmt: skip


def tensors(shapes, sizes, seed=0):
    """Random tensors of `shapes` at `sizes`; one that ends in `bool` is a mask."""
    random = np.random.default_rng(seed)
    made = []
    for shape in shapes:
        lengths = [sizes[n] if isinstance(n, str) else n for n in shape if n is not bool]
        if shape[-1] is bool:
            made.append(jg.from_numpy(random.integers(0, 2, lengths).astype(bool)))
        else:
            made.append(jg.from_numpy(random.standard_normal(lengths).astype(np.float32)))
    return tuple(made)


def dynamic_axes(shapes):
    """The `dynamic` argument: arguments are called as the function's parameters, x and y."""
    return [{i: n for i, n in enumerate(shape) if isinstance(n, str)} for shape in shapes]
