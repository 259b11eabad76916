"""Random functions of views, writes, branches and Python state, called several times compiled and eagerly.

`python tests/random_calls.py 10000` runs that many programs; `--from` says with which seed to begin. What differs
is shrunk and printed as a program to run.

Left out are new tensors that eager code lays out other than contiguously, like `x.t() * 2`: compiled code makes them
contiguous. So are gradients that eager code refuses because a residual was overwritten: a captured graph keeps every
value.
"""

import itertools
import linecache
import random
import sys
import warnings

import numpy as np
from random_runs import run_programs, smallest
from random_statements import LOCAL, statement

import jitgrad as jg

PRELUDE = '''\
import warnings

import numpy as np

import jitgrad as jg

warnings.simplefilter("ignore")
K = 0.5


class S:
    """What the function reads and changes besides its arguments."""

    scale = 1.5
    count = 1
    items = []
    table = {"k": 2.0}
    buffer = jg.linspace(-1, 1, 4, dtype=jg.float64)


def leaf(seed, *shape, grad=False):
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return jg.tensor(values, dtype=jg.float64, requires_grad=grad)
'''


class Program:
    """The statements of `f(a, b, c)`, what it returns, and the lines that make each call's arguments."""

    def __init__(self, body, result, calls):
        self.body, self.result, self.calls = body, result, calls

    def text(self):
        """As Python source: the prelude, `f`, and `call0`, `call1`, ... which return leaves and arguments."""
        lines = [PRELUDE, "", "def f(a, b, c):", "    global K"]
        lines += [f"    {line}" for part in self.body for line in part.splitlines()]
        lines += [f"    return {self.result}", ""]
        for n, call in enumerate(self.calls):
            lines += ["", f"def call{n}():", "    global K"]
            lines += [f"    {line}" for line in call]
            lines += ["    return leaves, (a, b, c)", ""]
        return "\n".join(lines)


def generate(seed):
    """A program. Each statement is tried on the first call's arguments; most that fail are left out."""
    rng = random.Random(seed)
    n, m = rng.randint(2, 4), rng.choice([2, 3, 4, 4])
    calls = _calls(rng, n, m)
    space = _namespace(Program([], "a", calls).text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, arguments = space["call0"]()
        space.update(zip("abc", arguments, strict=True))
        body = _body(rng, space)
    names = [x for x in space if LOCAL.fullmatch(x)]
    chosen = rng.sample(names, min(len(names), rng.randint(1, 5)))
    result = rng.choice(["({},)", "[{}, 3]", "({}, {{'k': a, 's': S.scale}})"]).format(", ".join(chosen))
    return Program(body, result, calls)


def _body(rng, space):
    body = []
    for _ in range(rng.randint(3, 12)):
        text = statement(rng, space)
        try:
            exec(text, space)
            if _has_its_own_layout(space):
                continue
        except (RuntimeError, IndexError, TypeError, ValueError):
            if rng.random() < 0.97:
                continue
        body.append(text)
    return body


def _has_its_own_layout(space):
    """Whether something new is not contiguous, and forget it then."""
    found = [x for x, v in space.items() if LOCAL.fullmatch(x) and hasattr(v, "is_contiguous") and _is_odd(v)]
    for name in found:
        del space[name]
    return bool(found)


def _is_odd(x):
    return x._view is None and x._data.base is None and not x.is_contiguous()


def _calls(rng, n, m):
    grads = [rng.random() < 0.5 for _ in range(3)]
    plain = _plain(rng, grads, n, m)
    larger = _plain(rng, grads, n + 1, m)
    changes = ["S.scale = 2.5", "K = 0.25", "S.table['k'] = -1.0", "S.count += 1", "S.items.clear()",
               "S.buffer = S.buffer * -1", "S.buffer.add_(0.5)"]  # fmt: skip
    calls = [plain(1), plain(10)]
    calls.append([*rng.sample(changes, 2), *plain(20)])
    calls.append(_sharing(rng, grads, n, m))
    calls.append(rng.choice([larger(40), plain(50)]))
    calls.append([*rng.sample(changes, 1), *plain(60)])
    return calls


def _plain(rng, grads, n, m):
    shapes = [f"{n}, {m}", rng.choice([f"{n}, {m}", f"{m}", "1"]), f"{n}, {m}"]

    def lines(seed):
        made = [f"leaf({seed + i}, {s}, grad={g})" for i, (s, g) in enumerate(zip(shapes, grads, strict=True))]
        return [f"leaves = [{', '.join(made)}]", "a, b, c = [x * 1 for x in leaves]"]

    return lines


def _sharing(rng, grads, n, m):
    b = rng.choice(["a", "h[1:]", "a[:]", "h[:-1].flip(0)", "a[0]", "h[:-1].detach()", "a.view(-1)"])
    c = rng.choice(["a", "b", "h[1:]", "leaves[0][1:] * 1", "a[...]"])
    made = f"leaf(30, {n + 1}, {m}, grad={grads[0]})"
    return [f"leaves = [{made}]", "h = leaves[0] * 1", "a = h[:-1]", f"b = {b}", f"c = {c}"]


def _namespace(text):
    name = f"<random program {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "random_program"}
    exec(compile(text, name, "exec"), space)
    return space


def outcomes(program, wrap):
    """What each call yields: its error or results, the state after it, and gradients."""
    space = _namespace(program.text())
    space["f"] = wrap(space["f"])
    jg.manual_seed(3)
    return [_outcome(space, space[f"call{n}"]) for n in range(len(program.calls))]


def _outcome(space, make):
    leaves, arguments = make()
    try:
        result = space["f"](*arguments)
    except NameError:  # a statement too many was left out
        raise
    except Exception as error:  # any other error is a result to compare
        return {"error": type(error).__name__, "text": str(error), "arguments": [_seen(x) for x in arguments]}
    state = space["S"]
    tensors = _tensors([arguments, result, state.items, state.table, state.buffer])
    return {
        "result": _told(result),
        "state": _told([space["K"], state.scale, state.count, state.items, state.table]),
        "tensors": [_seen(x) for x in tensors],
        "aliases": _aliases(tensors),
        "gradients": _gradients(tensors, leaves),
    }


def _tensors(x):
    if isinstance(x, jg.Tensor):
        return [x]
    values = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return list(itertools.chain.from_iterable(map(_tensors, values)))


def _told(x):
    if isinstance(x, jg.Tensor):
        return "tensor"
    if isinstance(x, dict):
        return {k: _told(v) for k, v in x.items()}
    return (type(x).__name__, *map(_told, x)) if isinstance(x, (list, tuple)) else x


def _seen(x):
    steps = [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1 and x.numel()]
    form = (str(x.dtype), tuple(x.shape), steps, x.requires_grad, x.is_leaf)
    return form, np.array(x.detach().numpy())


def _aliases(tensors):
    """Per pair: whether it is one tensor, and how many bytes lie between their beginnings in shared memory."""
    found = []
    for (i, x), (j, y) in itertools.combinations(enumerate(tensors), 2):
        if x is y:
            found.append((i, j, "same"))
        elif x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() and x.numel() and y.numel():
            found.append((i, j, x.data_ptr() - y.data_ptr()))
    return found


def _gradients(tensors, leaves):
    rng, total = np.random.default_rng(0), 0
    for x in tensors:
        weight = jg.tensor(rng.uniform(-1, 1, tuple(x.shape)), dtype=jg.float64)
        if x.is_floating_point():
            total = total + (x * weight).sum()
    if not getattr(total, "requires_grad", False):
        return []
    try:
        total.backward()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return [None if x.grad is None else x.grad.numpy().copy() for x in leaves]


def difference(program):
    """What eager and compiled runs differ in, as text; empty if in nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = zip(outcomes(program, lambda f: f), outcomes(program, jg.compile), strict=True)
        for n, (want, got) in enumerate(pairs):
            for key in ("error", "result", "state", "aliases", "tensors", "arguments", "gradients"):
                w, g = want.get(key), got.get(key)
                if key == "gradients" and isinstance(w, str):
                    continue  # a captured graph keeps every value, so it refuses less
                if not _equal(w, g):
                    return f"call {n}: {key}: {_first_difference(w, g)} {got.get('text', '')}"
    return ""


def _first_difference(w, g):
    if isinstance(w, (list, tuple)) and isinstance(g, (list, tuple)) and len(w) == len(g):
        n = next(n for n in range(len(w)) if not _equal(w[n], g[n]))
        return f"{n}: {_first_difference(w[n], g[n])}"
    return f"eager {w}, compiled {g}"


def _equal(w, g):
    if isinstance(w, np.ndarray):
        return isinstance(g, np.ndarray) and w.shape == g.shape and np.allclose(w, g, 1e-7, 1e-9, equal_nan=True)
    if isinstance(w, (list, tuple)):
        return type(w) is type(g) and len(w) == len(g) and all(map(_equal, w, g))
    if isinstance(w, dict):
        return isinstance(g, dict) and w.keys() == g.keys() and all(_equal(w[k], g[k]) for k in w)
    if isinstance(w, float) and isinstance(g, float):
        return bool(np.isclose(w, g, 1e-7, 1e-9, equal_nan=True))
    return w == g


def shrink(program, kind):
    """The program with all left out without which it still differs in `kind`."""

    def differs(candidate):
        return difference(candidate).split(":")[1:2] == [kind]

    return smallest(program, _smaller, differs)


def _smaller(program):
    body, result, calls = program.body, program.result, program.calls
    for n in range(len(calls)):
        if len(calls) > 1:
            yield Program(body, result, calls[:n] + calls[n + 1 :])
    for n in reversed(range(len(body))):
        yield Program(body[:n] + body[n + 1 :], result, calls)
        lines = body[n].splitlines()
        if len(lines) > 1:  # a branch: its first or last arm alone
            yield Program([*body[:n], lines[1].strip(), *body[n + 1 :]], result, calls)
            yield Program([*body[:n], lines[-1].strip(), *body[n + 1 :]], result, calls)
    inner = result.strip("()[],").split(", ")
    if len(inner) > 1:
        for n in range(len(inner)):
            if all(LOCAL.fullmatch(x) for x in inner[n : n + 1]):
                yield Program(body, f"({inner[n]},)", calls)
        yield Program(body, "(a,)", calls)
    for n, call in enumerate(calls):
        if "grad=True" in "".join(call):
            yield Program(
                body, result, [*calls[:n], [x.replace("grad=True", "grad=False") for x in call], *calls[n + 1 :]]
            )


def check(seed):
    """Raise `AssertionError` with the shrunk program if it differs."""
    program = generate(seed)
    found = difference(program)
    if found:
        small = shrink(program, found.split(":")[1])
        calls = f"f = jg.compile(f)\nfor call in ({', '.join(f'call{n}' for n in range(len(small.calls)))},):\n"
        calls += "    leaves, arguments = call()\n    print(f(*arguments), arguments)\n"
        again = difference(small) or f"not found again: {found}"
        raise AssertionError(f"seed {seed}: {again}\n\n{small.text()}\n\n{calls}")


if __name__ == "__main__":
    sys.exit(run_programs(check, __doc__))
