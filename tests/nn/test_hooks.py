"""Hooks of modules, tensors and tape nodes: the same calls, in the same order, with the same gradients as PyTorch."""

import gc
import importlib
import warnings
import weakref

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import nn
from jitgrad.nn.modules import module as everywhere


def numbers(x):
    """Tensors in tuples as nested lists, for comparing."""
    if isinstance(x, (tuple, list)):
        return [numbers(item) for item in x]
    if isinstance(x, dict):
        return {key: numbers(value) for key, value in x.items()}
    return np.round(x.detach().double().numpy(), 4).tolist() if hasattr(x, "detach") else x


def model(lib, activation="ReLU", **options):
    made = lib.nn.Sequential(lib.nn.Linear(2, 3), getattr(lib.nn, activation)(**options), lib.nn.Linear(3, 1))
    with lib.no_grad():
        for k, p in enumerate(made.parameters()):
            p.copy_((lib.arange(p.numel()).reshape(p.shape).float() - 2) / (k + 3))
    return made


def point(lib, requires_grad=True):
    return lib.tensor([[1.0, -0.5], [0.3, 2.0]], requires_grad=requires_grad)


def full_hooks(lib, log):
    m, x = model(lib), point(lib)
    m[0].register_full_backward_hook(lambda mod, before, after: log.append(("0", numbers(before), numbers(after))))
    m[2].register_full_backward_hook(lambda mod, before, after: (before[0] * 3,))
    m[2].register_full_backward_hook(lambda mod, before, after: log.append(("first", numbers(before))), prepend=True)
    m[0].register_full_backward_pre_hook(lambda mod, after: (after[0] + 1,))
    m[0].register_full_backward_pre_hook(lambda mod, after: log.append(("before all", numbers(after))), prepend=True)
    m(x).sum().backward()
    return [x.grad, *[p.grad for p in m.parameters()]]


def inputs_without_gradients(lib, log):
    m = lib.nn.Bilinear(2, 2, 2)
    with lib.no_grad():
        m.weight.copy_(lib.arange(8.0).reshape(2, 2, 2))
        m.bias.zero_()
    m.register_full_backward_hook(lambda mod, before, after: log.append((numbers(before), numbers(after))))
    x = point(lib)
    m(x, point(lib, False)).sum().backward()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m(point(lib, False), point(lib, False)).sum().backward()
    log.append([str(w.message)[:60] for w in caught])
    with lib.no_grad():
        m(x, x)
    return [x.grad, m.weight.grad]


def several_outputs(lib, log):
    class Two(lib.nn.Module):
        def forward(self, x, number, y):
            return x * number, y.detach(), x + y

    m, x, y = Two(), point(lib), point(lib)
    m.register_full_backward_hook(lambda mod, before, after: log.append((numbers(before), numbers(after))))
    first, constant, third = m(x, 3, y)
    (first * 2).sum().backward(retain_graph=True)
    (third.sum() + (first * constant).sum()).backward()
    return [x.grad, y.grad]


def through_the_gradient(lib, log):
    m, x = model(lib, "Tanh"), point(lib)
    m[0].register_full_backward_hook(lambda mod, before, after: (before[0] * 2,))
    (g,) = lib.autograd.grad(m(x).sum(), x, create_graph=True)
    (g * g).sum().backward()
    return [g, m[0].weight.grad, m[2].weight.grad]


def forward_hooks(lib, log):
    m, x = model(lib), point(lib, False)
    m.register_forward_pre_hook(lambda mod, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    m.register_forward_pre_hook(lambda mod, args: log.append(("first", numbers(args))), prepend=True)
    m.register_forward_hook(lambda mod, args, out: out + 1)
    m[0].register_forward_hook(lambda mod, args, kwargs, out: log.append(kwargs), with_kwargs=True)
    m.register_forward_hook(lambda mod, args, out: log.append(("out", numbers(out))), prepend=True)
    m.register_forward_hook(lambda mod, args, out: log.append(("always", out is None)), always_call=True)
    out = m(x)
    try:
        m(lib.ones(1, 5))
    except RuntimeError:
        log.append("error")
    return [out]


def older_hooks(lib, log):
    m, x = lib.nn.Tanh(), point(lib)
    m.register_backward_hook(lambda mod, before, after: log.append((numbers(before), numbers(after))))
    handle = m.register_backward_hook(lambda mod, before, after: (before[0] * 2,))
    with warnings.catch_warnings(record=True):  # that they see the last operation alone
        warnings.simplefilter("always")
        m(x).sum().backward()
        handle.remove()
        m(x).sum().backward()
    return [x.grad]


def hooks_on_all_modules(lib, log):
    hooks = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    m, x = model(lib), point(lib)

    def note(what):
        return lambda mod, *args: log.append((what, type(mod).__name__, numbers(args)))

    m[2].register_full_backward_hook(note("own"))
    m[2].register_forward_hook(note("own forward"))
    handles = [
        hooks.register_module_forward_pre_hook(note("pre")),
        hooks.register_module_forward_hook(note("forward")),
        hooks.register_module_full_backward_hook(note("backward")),
        hooks.register_module_full_backward_pre_hook(note("backward pre")),
    ]
    m(x).sum().backward()
    for handle in handles:
        handle.remove()
    log.append("removed")
    m(x).sum().backward()
    return [x.grad]


def hooks_on_registration(lib, log):
    hooks = importlib.import_module(f"{lib.__name__}.nn.modules.module")
    handles = [
        getattr(hooks, f"register_module_{kind}_registration_hook")(
            lambda mod, name, value, kind=kind: log.append((kind, type(mod).__name__, name))
        )
        for kind in ("buffer", "module", "parameter")
    ]
    m = lib.nn.Module()
    m.layer = lib.nn.Linear(1, 1, bias=False)
    m.add_module("other", lib.nn.ReLU())
    m.register_buffer("b", lib.zeros(1))
    m.q = lib.nn.Parameter(lib.zeros(1))
    with hooks.register_module_parameter_registration_hook(lambda mod, name, value: lib.nn.Parameter(value + 5)):
        m.p = lib.nn.Parameter(lib.zeros(1))
    for handle in handles:
        handle.remove()
    m.z = lib.nn.Parameter(lib.zeros(1))
    return [m.p, m.q]


def hooks_of_nodes_and_leaves(lib, log):
    x, w = point(lib), lib.ones(2, requires_grad=True)
    y = x * 3
    z = y * w
    z.grad_fn.register_hook(lambda before, after: log.append((numbers(before), numbers(after))))
    z.grad_fn.register_prehook(lambda after: (after[0] * 5,))
    x.register_hook(lambda g: g + 1)
    handle = w.register_post_accumulate_grad_hook(lambda t: log.append(numbers(t.grad)))
    z.sum().backward()
    w.register_post_accumulate_grad_hook(lambda t: setattr(t, "grad", None))
    handle.remove()
    (x * w).sum().backward()
    log.append(w.grad)
    return [x.grad, *lib.autograd.grad((x * x).sum(), x)]


def hooks_on_several_gradients(lib, log):
    graph = importlib.import_module(f"{lib.__name__}.autograd.graph")
    a, b, c = (lib.full((1,), float(k + 1), requires_grad=True) for k in range(3))
    d = a * b
    together = graph.register_multi_grad_hook((a, b, c, d), lambda grads: log.append(("all", numbers(grads))))
    first = graph.register_multi_grad_hook((a, b, c), lambda grad: log.append(len(grad)), mode="any")
    (d * 2 + b).sum().backward()
    (a * c).sum().backward()
    (a * c).sum().backward(inputs=[c])
    together.remove()
    first.remove()
    (a * c).sum().backward()
    return [a.grad, b.grad, c.grad]


PROGRAMS = [
    full_hooks, inputs_without_gradients, several_outputs, through_the_gradient, forward_hooks, older_hooks,
    hooks_on_all_modules, hooks_on_registration, hooks_of_nodes_and_leaves,
    hooks_on_several_gradients,
]  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_torch(program):
    torch = pytest.importorskip("torch")
    ours, theirs = [], []
    results = program(jg, ours)
    wanted = program(torch, theirs)
    assert ours == theirs
    for a, b in zip(results, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_module_that_writes_to_its_input_keeps_its_gradients():
    x, y = point(jg), point(jg)
    hooked, plain = model(jg, inplace=True), model(jg, inplace=True)
    seen = []
    hooked[1].register_full_backward_hook(lambda m, before, after: seen.append(numbers(before)))
    hooked[0].register_full_backward_hook(lambda m, before, after: seen.append(numbers(after)))
    hooked(x).sum().backward()
    plain(y).sum().backward()
    assert numbers(x.grad) == numbers(y.grad) and len(seen) == 2 and seen[0] == seen[1]
    for a, b in zip(hooked.parameters(), plain.parameters(), strict=True):
        assert numbers(a.grad) == numbers(b.grad)


def test_errors():
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks on a sing"):
        m.register_backward_hook(lambda *a: None)
    m.register_full_backward_hook(lambda mod, before, after: (1, 2))
    with pytest.raises(RuntimeError, match="invalid number of grad_input, got 2, but expected 1"):
        m(point(jg)).sum().backward()
    m = nn.Linear(2, 1)
    m.register_full_backward_pre_hook(lambda mod, after: (1, 2))
    with pytest.raises(RuntimeError, match="pre hook returned an invalid number of grad_output, got 2, but expected 1"):
        m(point(jg)).sum().backward()
    m = nn.Identity()
    m.register_full_backward_hook(lambda *a: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors but received .*list"):
        m([point(jg)])
    x = jg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        jg.ones(2).register_post_accumulate_grad_hook(print)
    with pytest.raises(ValueError, match="'all', 'any'"):
        jg.autograd.graph.register_multi_grad_hook((x,), print, mode="some")
    m = nn.Linear(2, 1)

    def fails(*args):
        raise ValueError("mine")

    m.register_forward_hook(fails, always_call=True)
    with pytest.warns(UserWarning, match="silenced.*mine"), pytest.raises(RuntimeError, match=r"matmul|linear"):
        m(jg.ones(3))


def test_hooks_keep_nothing_alive():
    m = nn.Linear(2, 1)
    m.register_full_backward_hook(lambda *a: None)
    x = point(jg)
    y = m(x)
    ref = weakref.ref(y)
    y.sum().backward()
    gc.collect()
    gc.disable()
    try:
        del y
        assert ref() is None
    finally:
        gc.enable()


# compiled -----------------------------------------------------------------------------------------------------


def trained(m, compiled, steps=3):
    """Losses and gradients of steps whose backward is inside."""
    optimizer = jg.optim.SGD(m.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = m(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = jg.compile(step)
    losses = [step(point(jg)).item() for _ in range(steps)]
    return np.array(losses), m[2].weight.grad.numpy(), step


def add_hooks(m):
    m[0].register_full_backward_hook(lambda mod, before, after: (before[0] * 2,))
    m[2].register_full_backward_pre_hook(lambda mod, after: (after[0] * 0.5,))
    m[2].weight.register_hook(lambda g: g * 3)
    m[0].register_forward_hook(lambda mod, args, out: out + 1)
    return m


def test_steps_with_hooks_are_compiled():
    want = trained(add_hooks(model(jg)), False)
    got = trained(add_hooks(model(jg)), True)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
    assert got[2].explain().specialisations  # captured, hooks and all
    assert not np.allclose(trained(model(jg), True)[1], got[1])


def test_hooks_added_and_removed_after_compiling_have_effect():
    m = jg.compile(model(jg))
    plain, x = model(jg), point(jg, False)
    for _ in range(2):
        assert numbers(m(x)) == numbers(plain(x))
    handle = m[0].register_forward_hook(lambda mod, args, out: out * 2)
    other = plain[0].register_forward_hook(lambda mod, args, out: out * 2)
    for _ in range(2):
        assert numbers(m(x)) == numbers(plain(x))
    handle.remove()
    other.remove()
    assert numbers(m(x)) == numbers(plain(x))
    with everywhere.register_module_forward_hook(lambda mod, args, out: out + 1):
        for _ in range(2):
            assert numbers(m(x)) == numbers(plain(x))
    assert numbers(m(x)) == numbers(plain(x))


def test_gradients_of_a_compiled_module_call_its_hooks():
    m, seen = jg.compile(model(jg)), []
    x = point(jg)
    m(x).sum().backward()
    without = numbers(x.grad)
    handle = m[2].register_full_backward_hook(lambda mod, before, after: seen.append(numbers(after)))
    with pytest.warns(UserWarning, match="Python runs at each call.*hook"):
        for _ in range(4):
            x.grad = None
            m(x).sum().backward()
            assert numbers(x.grad) == without
    assert seen == [[[[1.0], [1.0]]]] * 4
    handle.remove()
    with jg.compiler.assert_no_compile():
        m(x)
    assert len(seen) == 4
    w = m[0].weight
    w.register_post_accumulate_grad_hook(lambda t: seen.append("added"))
    for _ in range(2):
        m(x).sum().backward()
    assert seen[4:] == ["added"] * 2


def test_a_hook_with_effects_is_called_each_time():
    m, seen = model(jg), []
    m[0].register_full_backward_hook(lambda mod, before, after: seen.append(len(seen)))
    with pytest.warns(UserWarning, match="Python runs at each call"):
        trained(m, True, steps=5)
    assert seen == [0, 1, 2, 3, 4]


def test_hooks_on_several_gradients_inside_a_compiled_function():
    a, b, sums = jg.ones(2, requires_grad=True), jg.full((2,), 2.0, requires_grad=True), jg.zeros(2)
    jg.autograd.graph.register_multi_grad_hook((a, b), lambda grads: sums.add_(grads[0] + grads[1]))

    @jg.compile
    def f(x):
        loss = (a * b * x).sum()
        loss.backward()
        return loss

    for _ in range(4):
        f(jg.ones(2))
    assert a.grad.tolist() == [8, 8] and sums.tolist() == [12, 12]


def test_steps_in_backward_are_compiled():
    def run(compiled):
        m = model(jg)
        optimizers = {p: jg.optim.SGD([p], lr=0.1, momentum=0.9) for p in m.parameters()}

        def step(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in m.parameters():
            p.register_post_accumulate_grad_hook(step)

        def forward_and_backward(x):
            loss = m(x).square().sum()
            loss.backward()
            return loss

        f = jg.compile(forward_and_backward) if compiled else forward_and_backward
        losses = [round(f(point(jg)).item(), 4) for _ in range(5)]
        assert all(p.grad is None for p in m.parameters())
        return losses

    assert run(True) == run(False)
