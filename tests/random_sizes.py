"""Random programs of reductions, softmaxes, attention, products, convolutions and words, compiled at many sizes.

`python tests/random_sizes.py 1000` runs that many programs; `--from` says with which seed to begin. Each is called at
sizes that go up and down, so that most calls run a plan that was made for another size.
"""

import itertools
import random
import sys
import warnings

import numpy as np
from random_runs import run_programs, smallest

import jitgrad as jg

NAMES = ("x", "y", "ids", "mask", "w", "h", "g", "kernel", "table")
C = 6  # channels: the one length that never changes
BATCHES = (0, 1, 2, 3, 7, 8, 9, 16, 17, 33, 64)
LENGTHS = (1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130, 1000, 1025)
MOST = 20_000  # elements of an input
ROUNDING = {"float16": 2e-2, "bfloat16": 1.5e-1, "float32": 3e-4, "float64": 2e-9}  # of sums in another order

UNARY = (
    "{x}.exp()", "{x}.tanh()", "{x}.sigmoid()", "{x}.relu()", "F.gelu({x})", "{x}.square()", "({x}.abs() + 1).log()",
    "({x} * 0.7 - 0.1)", "{x}.sin()", "F.silu({x})", "{x}.clamp(-0.5, 0.9)", "{x} / ({x}.square() + 1)",
    "{x}.float()", "{x}.double()", "{x}.half()", "{x}.bfloat16()", "{x}.detach()", "({x}.square() + 1).rsqrt()",
    "{x}.expm1()", "F.softplus({x})", "{x}.erf()", "-{x}", "{x}.clone()", "{x}.contiguous()",
)  # fmt: skip
ALONG = (
    "{x}.softmax({d})", "{x}.log_softmax({d})", "{x}.softmax({d}).to(jg.{t})", "{x}.softmax({d}, dtype=jg.{t})",
    "{x}.sum({d}, keepdim={k})", "{x}.mean({d}, keepdim={k})", "{x}.amax({d}, keepdim={k})",
    "{x}.logsumexp({d}, keepdim={k})", "{x}.var({d}, keepdim={k}, correction=0)", "{x}.cumsum({d})", "{x}.flip({d})",
    "{x}.roll(1, {d})", "{x}.sum({d}, keepdim={k}, dtype=jg.{t})", "{x}.norm(dim={d}, keepdim={k})",
    "{x}.argmax({d}, keepdim={k})", "{x} - {x}.mean({d}, keepdim=True)",
    "{x}.exp() / {x}.exp().sum({d}, keepdim=True)", "{x}.sort({d})[0]", "{x} - {x}.amax({d}, keepdim=True)",
    "{x}.max({d}, keepdim={k})[0]", "{x}.prod({d}, keepdim={k})", "{x}.narrow({d}, 0, {x}.shape[{d}] // 2)",
    "{x}.exp().cumsum({d})", "F.normalize({x}, dim={d})", "jg.cat([{x}, {x}.tanh()], {d})",
    "{x}.amin({d}, keepdim={k})", "{x}.unbind({d})[0]", "{x}.chunk(2, {d})[-1]",
    "({x} - {x}.mean({d}, keepdim=True)) / ({x}.var({d}, keepdim=True, correction=0) + 1e-3).sqrt()",
)  # fmt: skip
PAIRS = (
    "{x} + {y}", "{x} * {y}", "{x} - {y}", "jg.maximum({x}, {y})", "jg.where({y} > 0, {x}, {y})",
    "{x} / ({y}.abs() + 1)", "{x}.masked_fill({y} > 0.3, -2.0)",
    "{x}.masked_fill({y} > 0.3, float('-inf')).softmax(-1)", "{x} @ {y}", "{x} @ {y}.mT", "{x}.mT @ {y}",
    "F.mse_loss({x}, {y})", "jg.stack([{x}, {y}])", "jg.lerp({x}, {y}, 0.3)",
)  # fmt: skip
OF_WORDS = (
    "F.layer_norm({x}, (C,), g, h)", "F.rms_norm({x}, (C,), g)", "{x} @ w", "F.linear({x}, w, h)", "{x}.mT",
    "{x}.permute(1, 0, 2)", "F.conv1d({x}.mT, kernel, h, padding=1)",
    "F.conv1d({x}.mT, kernel, h, padding=1).relu().mT", "F.max_pool1d({x}.mT, 2, ceil_mode=True)",
    "F.avg_pool1d({x}.mT, 2, padding=1)", "{x}.reshape(-1, C)", "{x}.mean((0, 1))", "{x}.var((0, 1))",
    "F.batch_norm({x}.mT, None, None, g, h, True)", "F.cross_entropy({x}.reshape(-1, C), ids.reshape(-1) % C)",
    "F.cross_entropy({x}.mT, ids % C, reduction='none')",
    "F.cross_entropy({x}.reshape(-1, C), ids.reshape(-1) % C, label_smoothing=0.1, ignore_index=1)",
    "({x} @ {x}.mT / 2.5).softmax(-1) @ {x}", "F.scaled_dot_product_attention({x}, {y}, {x})",
    "F.scaled_dot_product_attention({x}, {y}, {x}, is_causal=True)",
    "jg.softmax({x} @ {y}.mT * 0.3 + mask, -1) @ {x}",
    "({x} @ {y}.mT * 0.3).masked_fill(mask < 0, float('-inf')).softmax(-1) @ {y}",
    "F.scaled_dot_product_attention({x}.reshape(*ids.shape, 2, 3).transpose(1, 2), "
    "{y}.reshape(*ids.shape, 2, 3).transpose(1, 2),"
    " {x}.reshape(*ids.shape, 2, 3).transpose(1, 2), attn_mask=mask > 0).transpose(1, 2).flatten(2)",
    "{x}.gather(2, (ids % C).unsqueeze(-1))", "{x}.scatter_add(2, (ids % C).unsqueeze(-1), {y}[..., :1])",
    "F.conv2d({x}[:, None], kernel[:4, :1, None].expand(4, 1, 3, 3), padding=1)", "F.pad({x}, (1, 0, 0, 2))",
    "{x}[:, ::2]", "{x}[..., 1:]", "{x}.unfold(1, 1, 1)", "F.interpolate({x}.mT, scale_factor=2)",
    "jg.einsum('btc,bsc->bts', {x}, {y})", "{x}.transpose(0, 1).flatten(1)",
    "F.max_pool2d({x}[:, None], (2, 2), ceil_mode=True)", "{x}.softmax(1).mT @ {y}",
    "{x}.index_select(0, ids[:1, 0] * 0)", "table[ids]", "F.embedding(ids, table) + {x}",
    "F.nll_loss({x}.log_softmax(-1).mT, ids % C)", "F.group_norm({x}.mT, 2, g, h)", "{x}.tril()",
)  # fmt: skip
WRITES = (
    "{x}.mul_(0.5)", "{x}.exp_()", "{x}.add_({y})", "{x}.tanh_()", "{x}.relu_()", "{x}.copy_({y})", "{x}.mul_({y})",
    "{x}.sub_({x}.mean())", "{x}[..., :1] = 0.25", "{x}[..., 1:].mul_(2)", "{x}.copy_({x}.softmax(-1))",
    "{x}.zero_()",
)  # fmt: skip


class Program:
    """`f(x, y, ids, mask, w, h, g, kernel, table)`: its statements and results, and the sizes of its calls."""

    def __init__(self, dtype, body, results, inside, sizes):
        self.dtype, self.body, self.results, self.inside, self.sizes = dtype, body, results, inside, sizes

    def text(self):
        """The function's source. With `inside`, the gradients are computed in it."""
        lines = [f"def f({', '.join(NAMES)}):", *self.body, f"out = [{', '.join(self.results)}]"]
        if self.inside:
            lines += [f"grads = gradients(out, ({', '.join(NAMES)}))", "return [t.detach() for t in out], grads"]
        else:
            lines += ["return out, None"]
        return "\n    ".join(lines)

    def function(self):
        """The function."""
        space = {"jg": jg, "F": jg.nn.functional, "C": C, "gradients": gradients}
        exec(compile(self.text(), "<random sizes>", "exec"), space)
        return space["f"]

    def arguments(self, batch, length, seed):
        """The arguments of a call."""
        rng, dtype = np.random.default_rng(seed), getattr(jg, self.dtype)

        def leaf(*shape):
            return jg.tensor(rng.uniform(-1, 1, shape), dtype=dtype, requires_grad=True)

        ids = jg.tensor(rng.integers(0, 11, (batch, length)))
        mask = jg.tensor(np.where(np.tri(length), rng.uniform(0.01, 1, (length, length)), -1), dtype=dtype)
        x, y, w, h, g = leaf(batch, length, C), leaf(batch, length, C), leaf(C, C), leaf(C), leaf(C)
        return x, y, ids, mask, w, h, g, leaf(C, C, 3), leaf(11, C)


def gradients(out, leaves):
    """Of a number that all results take part in; None where there are none."""
    total = 0
    for n, t in enumerate(out):
        if t.requires_grad:
            t = t.double()
            total = total + (t * ((t.detach() * 0.3).tanh() + n)).sum()
    if isinstance(total, int):
        return None
    return jg.autograd.grad(total, [t for t in leaves if t.requires_grad], allow_unused=True)


def generate(seed):
    """A program. Statements are tried on arguments of a size whose lengths all differ; those that fail are left out."""
    rng = random.Random(seed)
    dtype = rng.choice(["float32", "float32", "float64"])
    program = Program(dtype, [], [], rng.random() < 0.5, _sizes(rng))
    space = {"jg": jg, "F": jg.nn.functional, "C": C}
    space.update(zip(NAMES, program.arguments(4, 7, seed), strict=True))
    count = rng.randint(1, 8)
    while len(program.body) < count:
        text = _statement(rng, space, len(program.body))
        try:
            exec(text, space)
        except (RuntimeError, IndexError, TypeError, ValueError):
            continue
        program.body.append(text)
    names = [n for n in space if n.startswith("t") and n[1:].isdigit()]
    program.results = rng.sample(names, min(len(names), rng.randint(1, 4))) or ["x * 2"]
    return program


def _sizes(rng):
    pairs = [(b, t) for b, t in itertools.product(BATCHES, LENGTHS) if b * t * C <= MOST and t * t <= 20 * MOST]
    sizes = rng.sample(pairs, 6)
    if rng.random() < 0.4:  # one of the two lengths stays
        sizes = [(b, sizes[0][1]) for b in rng.sample(BATCHES, 6) if b * sizes[0][1] * C <= MOST]
    return [*sizes, sizes[0]]


def _statement(rng, space, n):
    names = [k for k in space if k in "xy" or (k.startswith("t") and k[1:].isdigit())]
    recent = names[-3:] if rng.random() < 0.6 else names
    x, y = rng.choice(recent), rng.choice(names)
    kind = rng.choice([UNARY, ALONG, ALONG, PAIRS, OF_WORDS, OF_WORDS, WRITES])
    if kind is WRITES and (x in "xy" or rng.random() < 0.5):
        kind = UNARY
    text = rng.choice(kind)
    filled = text.format(x=x, y=y, d=rng.choice([-1, 0, 1, -2]), k=rng.random() < 0.5, t=rng.choice([*ROUNDING]))
    return filled if kind is WRITES else f"t{n} = {filled}"


def outcome(program, f, size, seed):
    """What a call gives: its error, or results, strides, written arguments and gradients."""
    arguments = program.arguments(*size, seed)
    try:
        out, grads = f(*arguments)
        grads = grads if program.inside else gradients(out, arguments)
    except Exception as error:  # an error is a result to compare
        return {"error": f"{type(error).__name__}"}
    return {"results": [_seen(t) for t in out], "gradients": None if grads is None else [_seen(g) for g in grads]}


def _seen(t):
    if t is None:
        return None
    steps = [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1 and t.numel()]
    return (str(t.dtype), tuple(t.shape), steps, t.detach().double().numpy().copy())


def difference(program):
    """What eager and compiled calls differ in; empty if in nothing."""
    eager, compiled = program.function(), jg.compile(program.function())
    spelt = {"half": "float16", "float()": "float32", **{name: name for name in ROUNDING}}
    loosest = max([ROUNDING[program.dtype], *(ROUNDING[v] for k, v in spelt.items() if k in program.text())])
    for n, size in enumerate(program.sizes):
        want, got = outcome(program, eager, size, n), outcome(program, compiled, size, n)
        if want.get("error") == "AutogradError":
            continue  # a residual was overwritten: a captured graph keeps every value
        if want.keys() != got.keys() or want.get("error") != got.get("error"):
            return f"call {n} at {size}: eager {want.get('error')}, compiled {got.get('error')}"
        for part in ("results", "gradients"):
            pairs = zip(want.get(part) or (), got.get(part) or (), strict=True)
            for k, (w, g) in enumerate(pairs):
                if (w is None) != (g is None) or (w is not None and (said := _differ(w, g, part, loosest))):
                    return f"call {n} at {size}: {part} {k}: {said if w and g else (w, g)}"
    return ""


def _differ(w, g, part, tolerance):
    if w[:2] != g[:2] or (part == "results" and w[2] != g[2]):
        return f"eager {w[:3]}, compiled {g[:3]}"
    a, b = w[3], g[3]
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
        far = ~(np.isclose(a, b, tolerance, tolerance * scale, equal_nan=True) | (a == b))
    if far.any():
        at = tuple(int(i[0]) for i in np.nonzero(far))
        return f"{int(far.sum())} of {far.size} differ, at {at}: eager {a[at]}, compiled {b[at]}"
    return ""


def shrink(program):
    """The program with all left out without which it still differs."""
    return smallest(program, _smaller, lambda p: bool(difference(p)))


def _smaller(p):
    for n in range(len(p.sizes)):
        yield Program(p.dtype, p.body, p.results, p.inside, p.sizes[:n] + p.sizes[n + 1 :])
    for n in range(len(p.results)):
        if len(p.results) > 1:
            yield Program(p.dtype, p.body, p.results[:n] + p.results[n + 1 :], p.inside, p.sizes)
    for n in reversed(range(len(p.body))):
        yield Program(p.dtype, p.body[:n] + p.body[n + 1 :], p.results, p.inside, p.sizes)
    if p.inside:
        yield Program(p.dtype, p.body, p.results, False, p.sizes)


def check(seed):
    """Raise `AssertionError` with the shrunk program if it differs."""
    program = generate(seed)
    found = difference(program)
    if found:
        small = shrink(program)
        again = difference(small) or f"not found again: {found}"
        raise AssertionError(f"seed {seed}: {again}\n{small.dtype} {small.sizes}\n{small.text()}\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(run_programs(check, __doc__))
