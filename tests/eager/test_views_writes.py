"""Random programs of views, writes and reads: after each statement every tensor is as in PyTorch, errors included.

Compared are values, `requires_grad`, `is_leaf` and version counters, and at the end the gradients.
"""

import random
import re
import warnings

import numpy as np
import pytest

import jitgrad as jg

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

    def run_backward(self, total):
        if not total.requires_grad:
            return None
        try:
            total.backward()
        except RuntimeError as error:
            return str(error)
        return None


def without_inplace_math(statement):
    """The same with results computed out of place and copied: PyTorch then finds no residual overwritten."""
    statement = re.sub(r"(\w+)\.(sin|tanh)_\(\)", r"\1.copy_(\1.clone().\2())", statement)
    return re.sub(r"(\w+)\.mul_\((\w+)\)", r"\1.copy_(\1.clone() * \2)", statement)


def expected_gradients(machine, torch, program):
    """PyTorch's gradients; where it refuses because of in-place math alone, those of the program without."""
    found = machine.gradients()
    if isinstance(found, str):
        machine = Machine(torch)
        for statement in program.statements:
            machine.run(without_inplace_math(statement))
        found = machine.gradients()
    return found


def compare(seed):
    torch = pytest.importorskip("torch")
    program = Program(seed)
    theirs, ours = Machine(torch), Machine(jg)
    shown = ""
    for statement in program.statements:
        shown += f"\n{statement}"
        expected, got = theirs.run(statement), ours.run(statement)
        assert bool(expected) == bool(got), f"{shown}\nPyTorch: {expected!r}\njitgrad: {got!r}"
        _same_state(theirs.state(), ours.state(), shown)
    expected, got = expected_gradients(theirs, torch, program), ours.gradients()
    if isinstance(expected, str) or isinstance(got, str):
        assert isinstance(expected, str) and isinstance(got, str), f"{shown}\nPyTorch: {expected}\njitgrad: {got}"
        return
    for e, g in zip(expected, got, strict=True):
        assert (e is None) == (g is None), f"{shown}\nPyTorch: {e}\njitgrad: {g}"
        if e is not None:
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-12, err_msg=shown)


def _same_state(expected, got, shown):
    assert expected.keys() == got.keys(), shown
    for name, (*facts, values) in expected.items():
        *our_facts, our_values = got[name]
        assert our_facts == facts, f"{shown}\n{name} (requires_grad, is_leaf, version): {facts} {our_facts}"
        np.testing.assert_allclose(our_values, values, rtol=1e-12, atol=0, err_msg=f"{shown}\n{name}")


@pytest.mark.torch
@pytest.mark.parametrize("block", range(10))
def test_random_programs(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * 15, block * 15 + 15):
            compare(seed)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many_random_programs(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(1000 + block * 100, 1000 + block * 100 + 100):
            compare(seed)


def test_a_leaf_written_into_a_detached_tensor_gets_the_gradient():
    leaf = jg.tensor([1.0, 2.0], requires_grad=True)
    out = jg.zeros(2)
    out[...] = leaf
    assert not out.is_leaf
    (out * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]


def test_writing_through_an_expanded_view_is_an_error():
    x = jg.zeros(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.expand(2, 3).add_(1.0)
    assert x.tolist() == [0.0, 0.0, 0.0]
    x.expand(2, 3)[0].add_(1.0)
    x.expand(2, 3)[:, 1:].fill_(5.0)
    assert x.tolist() == [1.0, 5.0, 5.0]


def test_leaves_and_their_views_cannot_be_written():
    leaf = jg.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[1:].add_(1)
    with jg.no_grad():
        leaf[1:].add_(1)
    assert leaf.tolist() == [0.0, 1.0, 1.0]


def test_overwritten_residuals_are_found():
    x = jg.ones(3, requires_grad=True)
    y = x * 2
    z = y.sin()
    y[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_broadcast_residuals_are_found_too():
    x, y = jg.ones(2, 3, requires_grad=True), jg.ones(3)
    z = x * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_data_shares_memory_and_can_be_replaced():
    x = jg.zeros(2, requires_grad=True)
    view = x.detach()[:1]
    x.data.add_(1)
    assert x.tolist() == [1.0, 1.0]
    x.data = jg.tensor([5.0, 6.0, 7.0])
    assert x.requires_grad and x.is_leaf and x.tolist() == [5.0, 6.0, 7.0]
    view.fill_(9)
    assert x.tolist() == [5.0, 6.0, 7.0]


def test_writes_are_differentiable_twice():
    x = jg.tensor([1.0, 2.0, 3.0], dtype=jg.float64, requires_grad=True)
    y = x * x
    y[1:].mul_(x[:2])
    (grad,) = jg.autograd.grad(y.sum(), x, create_graph=True)
    assert grad.tolist() == [6.0, 13.0, 12.0]  # of x0^2 + x1^2 x0 + x2^2 x1
    grad.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 10.0]
