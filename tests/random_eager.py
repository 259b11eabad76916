"""Random eager programs with gradients, which run with jitgrad and with PyTorch, each beside others that resemble it.

`python tests/random_eager.py 1000` runs that many families; `--from` says with which seed to begin. A family is a
program and its siblings, in which operands are swapped, constants are other, or leaves have no gradient. They run in
turns, so that whatever is kept by structure or by type from one call to the next meets those that it is not for.
"""

import random
import re
import sys
import warnings

import numpy as np
import torch
from random_runs import run_programs

import jitgrad as jg
from jitgrad import hot_path

SHAPES = [
    [(3, 4), (4,), (3, 1), (3, 4)], [(4, 4), (4, 4), (4,), (4, 4)], [(2, 3, 4), (3, 4), (4,), ()],
    [(4,), (4,), (4,), ()], [(3, 1), (4, 4), (3, 4), ()], [(1, 4), (3, 4), (1, 4), (4, 4)], [(), (), (4,), (3, 4)],
]  # fmt: skip
CONSTANTS = ["2", "3", "-1", "0.5", "2.0", "1.0", "1", "True", "-0.25"]
UNARY = [
    "sin", "tanh", "exp", "sigmoid", "abs", "neg", "relu", "square", "reciprocal", "erf", "floor", "sign", "expm1",
    "log1p", "digamma", "sinc", "atan", "clone", "detach", "frac", "nan_to_num", "contiguous", "i0",
]  # fmt: skip
BINARY = ["{x} / {y}", "{x} - {y}", "{x} * {y}", "{x} + {y}", "{x} ** {c}", "{c} / {x}", "{c} - {x}", "{x} / {c}",
          "{x} % {c}", "{x} - {c}", "{x} * {c}", "{x} + {c}", "{x} * {x}", "{x} // {y}", "{x} % {y}"]  # fmt: skip
FUNCTIONS = [
    "lib.where({b}, {x}, {y})", "lib.where({x} > {y}, {x}, {c})", "lib.maximum({x}, {y})", "lib.fmin({x}, {y})",
    "lib.lerp({x}, {y}, 0.25)", "lib.lerp({x}, {y}, {z})", "lib.addcmul({x}, {y}, {z}, value={k})",
    "lib.addcdiv({x}, {y}, {z}, value={k})", "lib.hypot({x}, {y})", "lib.atan2({x}, {y})",
    "lib.logaddexp({x}, {y})", "lib.xlogy({x}, {y})", "lib.fmod({x}, {y})", "lib.remainder({x}, {y})",
    "lib.cat([{x}, {y}], {d})", "lib.stack([{x}, {y}, {x}], {d})", "lib.add({x}, {y}, alpha={k})",
    "lib.sub({x}, other={y}, alpha={k})", "lib.matmul({x}, {y})", "lib.outer({x}, {y})", "{x} @ {y}.transpose(-1, -2)",
    "lib.addmm({x}, {y}, {z}, beta={k})", "{x}.masked_fill({b}, {k})", "{x}.clamp(-0.5, {k})", "{x}.clamp(min={y})",
    "{x}.clamp_max({k})", "lib.dist({x}, {y})", "lib.true_divide({x}, {y})", "lib.mul(input={x}, other={y})",
    "lib.einsum('ij,kj->ik', {x}, {y})", "lib.isclose({x}, {y}).to({x}.dtype)", "{x}.index_select({d}, index)",
    "{x}.gather({d}, index2)", "{x}.take(index)", "lib.kron({x}, {y})",
    "lib.cdist({x}, {y})", "{x}.index_add({d}, index, {y})", "{x}.scatter({d}, index2, {k})",
    "{x}.scatter_add({d}, index2, {y})", "lib.cross({x}, {y}, dim={d})", "lib.tensordot({x}, {y}, dims=1)",
    "{x} * counts", "{x} / counts", "counts / {x}", "{x} + {b}", "{x}.float().double()", "{x}.float() * {y}",
    "F.mse_loss({x}, {y}, reduction='{r}')", "F.smooth_l1_loss({x}, {y}, reduction='{r}')", "F.gelu({x})",
    "F.layer_norm({x}, {x}.shape[-1:])", "F.linear({x}, {y})", "F.leaky_relu({x}, {k})",
    "F.huber_loss({x}, {y})", "F.cosine_similarity({x}, {y}, dim={d})", "F.normalize({x}, dim={d})", "F.elu({x})",
    "F.softmin({x}, {d})", "F.kl_div({x}, {y}, reduction='{r}')", "F.pad({x}, (1, 0), value={k})", "F.silu({x})",
    "lib.repeat_interleave({x}, 2, {d})", "lib.diff({x}, dim={d})", "lib.renorm({x}, 2, 0, 1.0)",
]  # fmt: skip
REDUCTIONS = [
    "{x}.sum()", "{x}.sum({d})", "{x}.sum({d}, keepdim=True)", "{x}.mean({d})", "{x}.mean()", "{x}.amax({d})",
    "{x}.max({d})[0]", "{x}.min({d}).values", "{x}.max()", "{x}.prod({d})", "{x}.prod()", "{x}.var({d})",
    "{x}.var({d}, correction=0)", "{x}.std(dim={d}, keepdim=True)", "{x}.norm()", "{x}.norm(2, {d})", "{x}.norm(p=1)",
    "{x}.logsumexp({d})", "{x}.softmax({d})", "lib.log_softmax({x}, dim={d})", "{x}.cumsum({d})", "{x}.cumprod({d})",
    "{x}.argmax({d}) * {y}", "{x}.aminmax(dim={d})[1]", "lib.var_mean({x}, {d})[0]", "{x}.cummax({d})[0]",
    "{x}.logcumsumexp({d})", "{x}.sum(({d}, 0))", "{x}.median()", "{x}.sort({d})[0]", "lib.nansum({x}, {d})",
    "{x}.topk(2, {d})[0]", "{x}.flip({d})", "{x}.roll(1, {d})", "{x}.tril()", "{x}.triu(1)", "{x}.trace()",
    "{x}.kthvalue(2, {d})[0]", "lib.diag({x})", "lib.std_mean({x}, {d})[1]", "{x}.any({d}) * {y}",
]  # fmt: skip
VIEWS = [
    "{x}.t()", "{x}.reshape(-1)", "{x}[0]", "{x}[..., 1:]", "{x}[..., ::2]", "{x}.unsqueeze({d})",
    "{x}.squeeze()", "{x}.expand(2, *{x}.shape)", "{x}.select({d}, 1)", "{x}.diagonal()", "{x}.transpose(0, -1)",
    "{x}.chunk(2, {d})[1]", "{x}.unbind({d})[0]", "{x}.split(2, {d})[0]", "{x}[index]", "{x}[..., None]",
    "{x}.view_as({x})", "{x}.flatten()", "{x}.unfold({d}, 2, 2)", "{x}[{b}]", "{x}.repeat(2, 1)", "{x}.movedim(0, -1)",
]  # fmt: skip
WRITES = [
    "{x}.add_({y})", "{x}.mul_({c})", "{x}[..., 0] = {c}", "{x}[0] += {y}", "{x}.copy_({y})", "{x}.sin_()",
    "{x}.masked_fill_({b}, {k})", "{x} += {c}", "{x} *= {y}", "{x}.sigmoid_()", "{x}.zero_()",
    "{x}.detach().mul_({k})", "{x}.relu_()", "{x}.clamp_(-0.5, {k})", "{x}.addcmul_({y}, {z})", "{x}.sub_({x})",
    "{x}.requires_grad_() if {x}.is_leaf else None", "{x}.retain_grad() if {x}.requires_grad else None",
    "{x}.register_hook(lambda g: g * {k}) if {x}.requires_grad else None",
]  # fmt: skip
ENDS = [
    "{s}.backward()", "{s}.backward(retain_graph=True); {s}.backward()", "{s}.backward(); ({s} * {c}).backward()",
    "lib.autograd.backward([{s}, {t}])", "lib.autograd.backward([{s}, {s}])", "({s} + {t}).backward(retain_graph=True)",
    "{s}.backward(retain_graph=True); {t}.backward()", "{x}.backward(lib.ones_like({x}) * {k})",
    "{x}.backward({x}.detach())", "{x}.backward(gradient=one.expand({x}.shape))",
    "out.append(lib.autograd.grad({s}, leaves, allow_unused=True))",
    "g = lib.autograd.grad({s}, leaves[0], create_graph=True)[0]; (g * g).sum().backward()",
]  # fmt: skip
# Quotients and activations save their results, which PyTorch's don't, and scaled sums the scale.
STRICTER = re.compile("modified by an inplace operation|backward through the graph a second time")
BEGIN = "one = lib.ones((), dtype=lib.float64); v0 = leaves[0] * 1; v1 = leaves[1]; v2 = leaves[2]; v3 = leaves[3]"


class Family:
    """A program and its siblings: lists of statements in `v0`, `v1`, ..., of which those that fail are left out."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        pick = self.random.choice
        self.shapes = list(pick(SHAPES))
        self.random.shuffle(self.shapes)
        self.seed = seed
        self.names = ["v0", "v1", "v2", "v3"]
        if seed % 2:  # of arithmetic alone, with a gradient: what structures of tapes are told apart by
            body = [self.named(self.fill(pick(BINARY))) for _ in range(self.random.randint(2, 5))]
            body.append(self.named(" / ".join(self.random.sample(self.names[-3:], 2))))
            end = f"total({self.names[-1]}).backward()"
        else:
            body = [self.statement() for _ in range(self.random.randint(3, 9))]
            end = self.fill(pick(ENDS))
        grads = [self.random.random() < 0.8 for _ in range(4)]
        self.programs = [(grads, [*body, end])]
        if seed % 2:
            head, quotient = body[-1].split(" = ")
            self.programs.append((grads, [*body[:-1], f"{head} = {self.swapped(quotient, ())}", end]))
        for _ in range(3):
            self.programs.append(self.sibling(*pick(self.programs)))

    def statement(self):
        pick = self.random.choice
        kind = self.random.random()
        if kind < 0.12:
            return self.fill(pick(WRITES))
        table = BINARY if kind < 0.35 else FUNCTIONS if kind < 0.6 else REDUCTIONS if kind < 0.75 else VIEWS
        text = self.fill("{x}." + pick(UNARY) + "()" if kind > 0.9 else pick(table))
        if kind > 0.97:
            text = f"no_grad(lambda: {text})"
        return self.named(text)

    def named(self, text):
        """The assignment of an expression to a new variable."""
        self.names.append(f"v{len(self.names)}")
        return f"{self.names[-1]} = {text}"

    def fill(self, text):
        """The template with variables, the newer the likelier, and constants."""

        def one(match):
            kind = match[1]
            if kind in "xyz":
                at = min(int(self.random.expovariate(0.5)), len(self.names) - 1)
                return self.names[-1 - at]
            if kind in "st":
                return f"total({self.fill('{x}')})"
            if kind == "b":
                return f"({self.fill('{x}')} > 0.25)"
            return {
                "c": self.random.choice(CONSTANTS), "k": self.random.choice(["0.5", "2", "-1.5"]),
                "d": self.random.choice(["0", "0", "-1", "-1", "1"]), "r": self.random.choice(["mean", "sum", "none"]),
            }[kind]  # fmt: skip

        return re.sub(r"\{(\w)\}", one, text)

    def sibling(self, grads, lines):
        """A program that differs a little."""
        grads, lines = list(grads), list(lines)
        for _ in range(self.random.randint(1, 3)):
            change = self.random.choice([self.swapped, self.renumbered, self.rewired, None])
            if change is None:
                i = self.random.randrange(4)
                grads[i] = not grads[i]
                continue
            i = self.random.randrange(len(lines))
            head, equals, rest = lines[i].rpartition(" = ")
            before = self.names[: self.names.index(head)] if head in self.names else self.names
            lines[i] = head + equals + change(rest, before)
        return grads, lines

    def swapped(self, text, names):
        """With two of its variables changing places."""
        found = sorted(set(re.findall(r"\bv\d+\b", text)))
        if len(found) < 2:
            return text
        a, b = self.random.sample(found, 2)
        return re.sub(r"\bv\d+\b", lambda m: {a: b, b: a}.get(m[0], m[0]), text)

    def renumbered(self, text, names):
        """With another constant."""
        return re.sub(r"(?<![\w.])\d[\d.]*(?!\w)", self.random.choice(CONSTANTS), text, count=1)

    def rewired(self, text, names):
        """With another variable in the place of one."""
        found = [m.span() for m in re.finditer(r"\bv\d+\b", text)]
        start, stop = self.random.choice(found) if found else (0, 0)
        return text[:start] + self.random.choice(names) + text[stop:] if found else text


def run(lib, shapes, grads, lines, seed, skip=()):
    """What a program yields: its variables, gradients and the numbers of the statements that failed."""
    rng = np.random.default_rng(seed)
    leaves = [
        lib.tensor(rng.uniform(-1.5, 1.5, s).tolist(), dtype=lib.float64, requires_grad=g)
        for s, g in zip(shapes, grads, strict=True)
    ]

    def no_grad(f):
        with lib.no_grad():
            return f()

    def total(x):
        return (x * x).sum() if x.dim() else x * 1

    out, failed = [], {}
    env = {
        "lib": lib, "F": lib.nn.functional, "leaves": leaves, "no_grad": no_grad, "total": total, "out": out,
        "index": lib.tensor([1, 0, 1]), "index2": lib.tensor([[0, 1, 1, 0]]), "counts": lib.tensor([1, 2, 3, 4]),
    }  # fmt: skip
    exec(BEGIN, env)
    for i, line in enumerate(lines):
        if i in skip:
            continue
        try:
            exec(line, env)
        except (RuntimeError, IndexError, TypeError, ValueError, NameError, AttributeError, SyntaxError) as error:
            failed[i] = error
    names = sorted((n for n in env if re.fullmatch(r"v\d+", n)), key=lambda n: int(n[1:]))
    values = {n: env[n] for n in names if isinstance(env[n], lib.Tensor)}
    seen = {n: (str(v.dtype).split(".")[-1], v.requires_grad, _numbers(v)) for n, v in values.items()}
    for i, t in enumerate(leaves):
        seen[f"leaf {i}'s gradient"] = None if t.grad is None else ("", False, _numbers(t.grad))
    for i, g in enumerate(x for o in out for x in o):
        seen[f"gradient {i}"] = None if g is None else ("", False, _numbers(g))
    return seen, failed


def _numbers(t):
    return np.array(t.detach().numpy(force=True))


def differs(want, got):
    """What differs between two runs, in words; None if nothing does."""
    if want.keys() != got.keys():
        return f"{want.keys()} and {got.keys()}"
    for name, w in want.items():
        g = got[name]
        if w is None or g is None:
            if w is not g:
                return f"{name}: {w} and {g}"
            continue
        if w[:2] != g[:2] or w[2].shape != g[2].shape:
            return f"{name}: {w[:2]} {w[2].shape} and {g[:2]} {g[2].shape}"
        rtol = 1e-4 if w[2].dtype == np.float32 or any("float32" in x[0] for x in want.values() if x) else 1e-8
        if not np.allclose(w[2], g[2], rtol=rtol, atol=rtol):
            return f"{name}: {w[2].tolist()} and {g[2].tolist()}"
    return None


def is_steady(want):
    """Whether all numbers are finite and of ordinary size, so that rounding stays small."""
    return all(np.all(np.abs(x[2].astype(float)) < 1e6) for x in want.values() if x)


def check(seed, turns=5):
    """Run a family in turns, and raise `AssertionError` with what differs first."""
    family = Family(seed)
    wanted = []
    for grads, lines in family.programs:
        _, failed = run(torch, family.shapes, grads, lines, seed)
        skip = set(failed)
        while True:  # a statement that fails half-way may have changed something
            want, failed = run(torch, family.shapes, grads, lines, seed, skip)
            if set(failed) <= skip:
                break
            skip |= set(failed)
        wanted.append((grads, lines, skip, want, is_steady(want)))
    for turn in range(turns):
        for number, (grads, lines, skip, want, steady) in enumerate(wanted):
            got, failed = run(jg, family.shapes, grads, lines, seed, skip)
            if any(STRICTER.search(str(e)) for e in failed.values()):
                break
            problem = f"failed: {failed}" if failed else steady and differs(want, got)
            if problem:
                text = "\n".join(line for i, line in enumerate(lines) if i not in skip)
                raise AssertionError(
                    f"seed {seed}, program {number}, turn {turn}: {problem}\n{family.shapes} {grads}\n{text}\n"
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    hot_path.CALLS = 1
    jg.compile(lambda x: x + 1)(jg.ones(2))  # the code generator is loaded
    sys.exit(run_programs(check, __doc__))
