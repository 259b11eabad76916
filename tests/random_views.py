"""Random programs of views, writes and reads, which run with jitgrad and with PyTorch."""

import random

import numpy as np

SHAPES = [(3, 4), (2, 3, 2), (6,), (1, 4), ()]


class Program:
    """Statements in the variables `t0`, `t1`, ...; shapes and memory are followed with NumPy."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.arrays = {}
        self.groups = {}  # which variables may share memory
        self.statements = []
        for i, shape in enumerate(self.random.sample(SHAPES, 3)):
            self.say(f"leaf{i}", f"leaf({i}, {shape}, {self.random.random() < 0.7})", np.zeros(shape), None)
            self.new(f"leaf{i} * 1", np.zeros(shape), None)
        for _ in range(self.random.randint(4, 14)):
            self.random.choice([self.view, self.view, self.view, self.compute, self.write, self.write, self.write])()

    def say(self, name, expression, array, source):
        self.statements.append(f"{name} = {expression}")
        self.arrays[name] = array
        self.groups[name] = name if source is None else self.groups[source]

    def new(self, expression, array, source):
        self.say(f"t{len(self.arrays)}", expression, array, source)

    def pick(self, condition=lambda a: True):
        found = [n for n, a in self.arrays.items() if condition(a) and not n.startswith("leaf")]
        return self.random.choice(found) if found else None

    def view(self):
        x = self.pick()
        a = self.arrays[x]
        options = [
            (f"{x}.detach()", lambda: a),
            (f"{x}.reshape(-1)", lambda: a.reshape(-1)),
            (f"{x}.unsqueeze(0)", lambda: a[None]),
            (f"{x}.squeeze()", lambda: a.squeeze()),
            (f"{x}.view({x}.shape)", lambda: a.view()),
            (f"{x}[...]", lambda: a[...]),
            (f"{x}[None]", lambda: a[None]),
            (f"{x}.expand(2, *{x}.shape)", lambda: np.broadcast_to(a, (2, *a.shape))),
        ]
        if a.ndim:
            i, step = self.random.randrange(a.shape[0]), self.random.randint(1, 2)
            options += [
                (f"{x}[{i}]", lambda: a[i, ...]),
                (f"{x}[{i}:]", lambda: a[i:]),
                (f"{x}[..., ::{step}]", lambda: a[..., ::step]),
                (f"{x}.select(-1, -1)", lambda: a[..., -1]),
                (f"{x}.narrow(0, {i}, 1)", lambda: a[i : i + 1]),
            ]
            if a.shape[0] >= 2:
                options.append((f"{x}.unfold(0, 2, 2)", lambda: _unfolded(a)))
        if a.ndim >= 2:
            options += [
                (f"{x}.transpose(0, -1)", lambda: a.swapaxes(0, -1)),
                (f"{x}.diagonal()", lambda: a.diagonal()),
                (f"{x}.movedim(0, 1)", lambda: np.moveaxis(a, 0, 1)),
                (f"{x}.flatten(0, 1)", lambda: a.reshape(-1, *a.shape[2:])),
            ]
        expression, make = self.random.choice(options)
        if a.size < 60:
            self.new(expression, make(), x)

    def compute(self):
        x = self.pick()
        a = self.arrays[x]
        other = self.pick(lambda b: b.shape == a.shape)
        expression = self.random.choice(
            [
                f"{x}.sin()",
                f"{x}.tanh()",
                f"{x} * 0.5",
                f"{x} * {other}",
                f"{x} + {other}",
                f"{x}.clone()",
                f"-{x}",
            ]
        )
        self.new(expression, np.zeros(a.shape), None)

    def write(self):
        x = self.pick()
        if self.random.random() < 0.05:
            x = self.random.choice([n for n in self.arrays if n.startswith("leaf")])
        a = self.arrays[x]
        group = self.groups[x]
        other = self.random.choice(
            [n for n, b in self.arrays.items() if self.groups[n] != group and _fits(b.shape, a.shape)] or ["0.5"]
        )
        same_shape = [n for n, b in self.arrays.items() if b.shape == a.shape and self.groups[n] != group]
        source = self.random.choice([*same_shape, f"{x}.clone()", f"{x} * 2"])
        options = [
            f"{x}.mul_({other})", f"{x}.add_({other})", f"{x}.sub_({other}, alpha=2)", f"{x}.sin_()",
            f"{x}.tanh_()", f"{x}.copy_({source})", f"{x}[...] = {other}", f"{x}.neg_()",
            f"no_grad(lambda: {x}.mul_(0.5))", f"no_grad(lambda: {x}.copy_({source}))",
            f"{x}.add_({source})",
        ]  # fmt: skip
        if not _repeats(a):  # where it does, PyTorch warns and writes
            options += [f"{x}[{x} > 0] = 0.25", f"{x}.zero_()", f"{x}.fill_(0.3)"]
        if a.ndim and not _repeats(a):
            i = self.random.randrange(a.shape[0])
            options += [f"{x}[{i}] = 0.7", f"{x}[{i}] += 0.1", f"{x}[[{i}, 0]] = 0.2", f"{x}[{i}:].mul_(0.5)"]
        self.statements.append(self.random.choice(options))


def _unfolded(a):
    return np.lib.stride_tricks.sliding_window_view(a, 2, 0)[::2]


def _repeats(a):
    return any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))


def _fits(shape, target):
    return len(shape) <= len(target) and all(n in (1, m) for n, m in zip(shape[::-1], target[::-1], strict=False))


class Machine:
    """Runs statements with one library."""

    def __init__(self, lib):
        self.lib = lib
        self.env = {"leaf": self.leaf, "no_grad": self.no_grad}

    def leaf(self, i, shape, requires_grad):
        values = np.random.default_rng(i).uniform(-1, 1, shape).tolist()
        return self.lib.tensor(values, dtype=self.lib.float64, requires_grad=requires_grad)

    def no_grad(self, write):
        with self.lib.no_grad():
            write()

    def run(self, statement):
        """Whether it ran; if not, nothing has changed."""
        try:
            exec(statement, self.env)
        except RuntimeError as error:
            return str(error)
        except NameError:  # of a variable whose statement failed
            return "name"
        return ""

    def tensors(self):
        return {n: t for n, t in self.env.items() if hasattr(t, "requires_grad")}

    def state(self):
        return {n: (t.requires_grad, t.is_leaf, t._version, t.detach().numpy()) for n, t in self.tensors().items()}

    def gradients(self):
        rng = np.random.default_rng(99)
        total = 0
        for t in self.tensors().values():
            weight = self.lib.tensor(rng.uniform(-1, 1, tuple(t.shape)).tolist(), dtype=self.lib.float64)
            total = total + (t * weight.reshape(t.shape)).sum()
        failed = self.run_backward(total)
        leaves = [t for n, t in self.tensors().items() if n.startswith("leaf")]
        return failed or [None if t.grad is None else t.grad.numpy() for t in leaves]

    def second_gradients(self):
        """First gradients, and those of a weighted sum of them; an error's text if there is one."""
        rng = np.random.default_rng(7)
        total = 0
        for t in self.tensors().values():
            total = total + (t * t * rng.uniform(-1, 1)).sum()
        leaves = [t for n, t in self.tensors().items() if n.startswith("leaf") and t.requires_grad]
        if not leaves or not total.requires_grad:
            return []
        try:
            first = self.lib.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
            mixed = 0
            for g in first:
                mixed = mixed + (0 if g is None else (g * g * rng.uniform(-1, 1)).sum())
            second = [None] * len(leaves)
            if getattr(mixed, "requires_grad", False):
                second = self.lib.autograd.grad(mixed, leaves, allow_unused=True)
        except RuntimeError as error:
            return str(error)
        return [None if g is None else g.detach().numpy() for g in (*first, *second)]

    def run_backward(self, total):
        if not total.requires_grad:
            return None
        try:
            total.backward()
        except RuntimeError as error:
            return str(error)
        return None
