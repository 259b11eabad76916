"""Results of compiled functions lie in memory as those of eager code do."""

import dataclasses
import random
import warnings

import numpy as np
import pytest

import jitgrad as jg
from jitgrad.compiler.strides import elementwise
from jitgrad.ir.op import Pointwise
from jitgrad.ir.ops import REGISTRY
from jitgrad.ir.ops.history import Detach, WithHistory

STATEMENTS = [
    "{o} = {a}.permute({axes})",
    "{o} = {a} * 2",
    "{o} = 1 - {a}",
    "{o} = {a} + {b}",
    "{o} = {a} / (1 + {b} * {b})",
    "{o} = jg.where({a} > {b}, {a}, {b})",
    "{o} = {a}.tanh()",
    "{o} = {a}.clamp(-1, 1)",
    "{o} = {a}.clone()",
    "{o} = {a}.contiguous()",
    "{o} = {a}.detach()",
    "{o} = {a}.to(jg.float32).to(jg.float64)",
    "{o} = ({a} > 0).logical_not()",
    "{o} = {a}[{cut}]",
    "{o} = {a}.sum({axis}, keepdim=True)",
    "{o} = {a} - {a}.amax({axis}, keepdim=True)",
    "{o} = {a}.softmax({axis})",
    "{o} = {a}.cumsum({axis})",
    "{o} = jg.cat([{a}, {a}], {axis})",
    "{o} = {a}.flip({axis})",
    "{o} = {a}.masked_fill({a} > 0, 1)",
    "{o} = jg.nn.functional.gelu({a}.double())",
    "{o} = {a}.clone().mul_({b})",
    "{o} = {a}.clone(); {o}.transpose(0, {axis}).add_(1)",
    "{o} = {a}.reshape({shape}).transpose(0, 1)",
    "{o} = {a} if {a}.sum() > 0 else -{a}",
    "jg.zeros(1).add_({a}.sum())",
    "x.mul_({a}.mean())",
]


def program(seed):
    """A function of two tensors, as text, with the shape of its arguments."""
    rng = random.Random(seed)
    shape = [rng.choice((1, 2, 3, 5)) for _ in range(rng.choice((2, 3, 4)))]
    names, lines = ["x", "y"], []
    for n in range(rng.randrange(2, 8)):
        axes = list(range(len(shape)))
        rng.shuffle(axes)
        lines.append(
            rng.choice(STATEMENTS).format(
                o=f"t{n}", a=rng.choice(names), b=rng.choice(names), axes=axes, axis=rng.randrange(len(shape)),
                cut=rng.choice(("..., ::2", "1:", ":, :1")), shape=[1, -1, *shape[2:]],
            )
        )  # fmt: skip
        if lines[-1].startswith(f"t{n} ="):
            names.append(f"t{n}")
    return lines, names, shape


def arguments(seed, shape):
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(2):
        order = rng.permutation(len(shape))
        t = jg.tensor(rng.uniform(-1, 1, [shape[a] for a in order])).permute(*np.argsort(order).tolist())
        made.append(t.clone() if rng.random() < 0.5 else t)
    return made


def outcome(f, given, grad):
    try:
        results = list(f(*[t.requires_grad_() for t in given] if grad else given))
        if grad:
            sum([t.double().sin().sum() for t in results if t.requires_grad]).backward()
            results += [t.grad for t in given if t.grad is not None]
    except RuntimeError as error:
        return type(error).__name__
    seen = [t.detach() for t in (*results, *given)]
    return [(tuple(t.shape), steps(t), t.is_contiguous(), t.numpy().tolist()) for t in seen]


def steps(t):
    """The strides that say where elements are: those of axes with more than one."""
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else []


def check(seed, effect, grad):
    lines, names, shape = program(seed)
    first = ["kept.append(1)"] if effect else []
    text = "\n    ".join(["def f(x, y):", *first, *lines, f"return {', '.join(names)},"])
    space = {"jg": jg, "kept": []}
    exec(text, space)
    compiled = jg.compile(space["f"])
    for call in range(3 + 2 * effect):
        want = outcome(space["f"], arguments(call // 2, shape), grad)
        have = outcome(compiled, arguments(call // 2, shape), grad)
        if isinstance(want, str) or isinstance(have, str):
            assert want == have, f"{text}\n{want}, {have}"
            continue
        for n, (w, h) in enumerate(zip(want, have, strict=True)):
            assert w[:3] == h[:3] and np.allclose(w[3], h[3]), f"{text}\ntensor {n}: eager {w[:3]}, compiled {h[:3]}"


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_programs(start):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(start, start + 10):
            check(seed, seed % 4 == 3, seed % 3 == 0)


@pytest.mark.slow
def test_many_random_programs():
    for start in range(40, 1000, 10):
        test_random_programs(start)


SAMPLES = {"float": np.float64, "int": np.int64, "bool": np.bool_, "complex": np.complex128}


@pytest.mark.parametrize("name", [n for n, op in REGISTRY.items() if issubclass(op, Pointwise)])
def test_the_rule_is_that_of_the_references(name):
    kind = REGISTRY[name]
    if kind in (Detach, WithHistory) or dataclasses.fields(kind):
        return
    dtypes = [next(d for k, d in SAMPLES.items() if k in kind.accepts)] * kind.arity
    if name == "where":
        dtypes[0] = np.bool_
    rng = np.random.default_rng(0)
    for first, *others in [[rng.permutation(3) for _ in range(3)] for _ in range(6)]:
        for orders in ([first] * 3, [first, *others]):
            arrays = [
                np.full(np.array((3, 4, 5))[order], 0.5).astype(dtype).transpose(np.argsort(order))
                for dtype, order in zip(dtypes, orders, strict=False)
            ]
            have = kind().reference(*arrays)
            rule = elementwise([a.shape for a in arrays], [a.strides for a in arrays], have.itemsize)
            assert have.strides == (rule or np.empty(have.shape, have.dtype).strides), orders


def test_layouts_decide_what_views_share():
    def f(x):
        y = x.t() * 2
        flat = y.reshape(-1)
        flat[0] = 100.0
        return y, flat, y.t().view(-1)

    def g(x):
        return (x.t() * 2).view(-1)

    compiled = jg.compile(f)
    for _ in range(3):
        want, have = f(jg.ones(2, 3)), compiled(jg.ones(2, 3))
        assert [t.tolist() for t in want] == [t.tolist() for t in have]
        assert have[0].stride() == want[0].stride() == (1, 3)
        with pytest.raises(RuntimeError, match="view"):
            jg.compile(g)(jg.ones(2, 3))


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_stored_state_and_gradients_have_them_too():
    class Kept:
        buffer = None

    def step(kept, x):
        kept.buffer = x.t().exp()
        return kept.buffer * x.t()

    for f in (step, jg.compile(step)):
        for _ in range(4):
            kept = Kept()
            x = jg.ones(2, 3).requires_grad_()
            y = f(kept, x)
            assert kept.buffer.stride() == y.stride() == (1, 3)
            y.sum().backward()
            assert x.grad.is_contiguous()
