"""`compile`: results, writes, gradients, guards and fallbacks equal those of the eager function, on every call."""

import threading

import numpy as np
import pytest

import jitgrad as jg


def specialisations(f):
    return len(f.explain().specialisations)


def check(make, *inputs, calls=3, rtol=2e-6):
    """`make()` gives a function; eager and compiled runs on equal inputs give equal results and equal inputs after."""
    eager, compiled = make(), jg.compile(make())
    for _ in range(calls):
        mine, theirs = [x.clone() for x in inputs], [x.clone() for x in inputs]
        want, got = eager(*mine), compiled(*theirs)
        for w, g in zip(flat(want) + mine, flat(got) + theirs, strict=True):
            assert w.dtype is g.dtype
            np.testing.assert_allclose(g.detach().numpy(), w.detach().numpy(), rtol=rtol, atol=1e-6)
    assert specialisations(compiled) == 1, compiled.explain()
    return compiled


def flat(x):
    return [y for item in x for y in flat(item)] if isinstance(x, (list, tuple)) else [x]


X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))


def test_pointwise_and_reductions():
    check(lambda: lambda x: ((x * 2 + 1).tanh().sum(0), x.mean(), x.amax(1)), X)


def test_containers_in_and_out():
    f = jg.compile(lambda d, s=1: {"a": d["x"] + d["y"][0] * s, "b": [d["x"]]})
    out = f({"x": X, "y": (X,)}, s=2)
    np.testing.assert_allclose(out["a"].numpy(), X.numpy() * 3, rtol=1e-6)
    assert out["b"][0] is X


def test_writes_to_arguments_happen_in_order():
    def make():
        def f(x):
            y = x.log1p() if False else x * 2
            x.add_(1)
            z = x * y
            x[1] = 0.0
            return y, z

        return f

    check(make, X)


def test_views_see_writes():
    def make():
        def f(x):
            row, t = x[1:3], x.t()
            row.mul_(3)
            x.add_(1)
            t[0] = 5.0
            return row + 0, t * 2

        return f

    check(make, X)


def test_captured_tensors_are_read_at_each_call():
    w = jg.ones(6)
    f = jg.compile(lambda x: x * w)
    f(X)
    w.copy_(jg.full((6,), 3.0))
    np.testing.assert_allclose(f(X).numpy(), X.numpy() * 3, rtol=1e-6)
    assert specialisations(f) == 1


def test_returned_views_and_arguments_alias():
    f = jg.compile(lambda x: (x, x.view(-1), x.detach()))
    for _ in range(2):
        x = jg.ones(2, 3)
        same, flat_view, detached = f(x)
        assert same is x
        flat_view[0] = 7.0
        assert x[0, 0].item() == 7.0 and detached[0, 0].item() == 7.0


def test_a_new_shape_retraces_and_compiles_no_kernel():
    f = jg.compile(lambda x, y: ((x + y) * x).tanh().sum(1))
    f(jg.rand(8, 16), jg.rand(8, 16))
    for n in (9, 1, 33):
        x, y = jg.rand(n, 16), jg.rand(n, 16)
        with jg.assert_no_compile():
            got = f(x, y)
        np.testing.assert_allclose(got.numpy(), np.tanh((x + y).numpy() * x.numpy()).sum(1), rtol=1e-5)
    assert specialisations(f) == 4
    assert "arg x: dim 0 8 -> 9" in " ".join(str(f.explain()).split())


def test_a_new_number_compiles_no_kernel():
    f = jg.compile(lambda x, k: x * k + k)
    f(X, 2.5), f(X, 3.5)  # from the second on, it is an input
    with jg.assert_no_compile():
        np.testing.assert_allclose(f(X, 4.5).numpy(), X.numpy() * 4.5 + 4.5, rtol=1e-6)
    assert specialisations(f) == 2


def test_the_gradient_of_a_compiled_function_is_that_of_the_eager_one():
    w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)

    def f(x):
        return ((x * w).tanh() * x).sum()

    compiled = jg.compile(f)
    for _ in range(3):
        x, y = X.clone().requires_grad_(), X.clone().requires_grad_()
        want = jg.autograd.grad(f(x), (x, w))
        got = jg.autograd.grad(compiled(y), (y, w))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-6)


def test_double_backward_through_a_compiled_function():
    f = jg.compile(lambda x: (x**3).sum())
    for _ in range(3):
        x = jg.tensor([1.0, 2.0], requires_grad=True)
        (g,) = jg.autograd.grad(f(x), x, create_graph=True)
        (h,) = jg.autograd.grad(g.sum(), x)
        assert (g.tolist(), h.tolist()) == ([3.0, 12.0], [6.0, 12.0])


def training(compiled):
    rng = np.random.default_rng(0)
    w = jg.tensor(rng.standard_normal((6, 3)).astype("f4"), requires_grad=True)
    m = jg.zeros(6, 3)

    def step(x, y, lr):
        w.grad = None
        loss = (((x @ w).tanh() - y) ** 2).mean()
        loss.backward()
        with jg.no_grad():
            m.mul_(0.9).add_(w.grad)
            w.sub_(m * lr)
        return loss

    return (jg.compile(step) if compiled else step), w, m


def test_a_whole_training_step():
    eager, we, me = training(False)
    compiled, wc, mc = training(True)
    target = jg.tensor(np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3))
    for k in range(6):
        a, b = eager(X, target, 0.1 / (k + 1)), compiled(X, target, 0.1 / (k + 1))
        np.testing.assert_allclose(b.item(), a.item(), rtol=1e-5)
    for a, b in ((we, wc), (me, mc), (we.grad, wc.grad)):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="second time"):
        b = compiled(X, target, 0.1)
        b.backward()


def test_random_numbers_are_those_of_the_eager_function():
    def f(x):
        return x + jg.rand(4, 6), jg.randn(3)

    compiled = jg.compile(f)
    for seed in range(3):
        jg.manual_seed(seed)
        want = [f(X), f(X)]
        jg.manual_seed(seed)
        got = [compiled(X), compiled(X)]
        for w, g in zip(flat(want), flat(got), strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5, atol=1e-6)


def test_the_warning_is_attributed_to_the_call():
    f = jg.compile(lambda x: x + np.sum(x.numpy()))
    with pytest.warns(UserWarning, match="Python runs at each call") as caught:
        f(X)
    assert caught[0].filename == __file__


def test_fullgraph_names_the_line():
    @jg.compile(fullgraph=True)
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(jg.errors.CompileError, match=r"test_compile\.py:\d+ in .*f"):
        f(X)


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_tensors_that_escape_are_real():
    kept = []

    @jg.compile
    def f(x):
        kept.append(x * 2)
        return x + 1

    for _ in range(3):
        f(X)
    assert len(kept) == 3
    for k in kept:
        np.testing.assert_allclose(k.numpy(), X.numpy() * 2)


def test_closures_globals_and_attributes_are_guarded():
    class Settings:
        scale = 2.0

    settings, numbers = Settings(), [1.0]

    @jg.compile
    def f(x):
        return x * settings.scale + numbers[0]

    one = jg.ones(3)
    assert f(one).tolist() == [3.0] * 3
    settings.scale = 5.0
    assert f(one).tolist() == [6.0] * 3
    numbers[0] = 2.0
    assert f(one).tolist() == [7.0] * 3


def test_grad_mode_is_part_of_the_key():
    x = X.clone().requires_grad_()
    f = jg.compile(lambda x: x * 2)
    assert f(x).requires_grad
    with jg.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


def test_an_error_in_the_function_leaves_what_eager_leaves():
    @jg.compile
    def f(x):
        x.add_(1)
        raise KeyError("mine")

    x = jg.zeros(2)
    for n in (1.0, 2.0):
        with pytest.raises(KeyError, match="mine"):
            f(x)
        assert x.tolist() == [n, n]
    assert (x + 1).tolist() == [3.0, 3.0]


def test_a_wrong_shape_names_the_users_line():
    def f(x, y):
        return x @ y

    for g in (f, jg.compile(f)):
        with pytest.raises(RuntimeError, match=r"matmul") as error:
            g(jg.zeros(2, 3), jg.zeros(4, 5))
        assert "test_compile.py" in str(error.value)
        assert "f32[2,3]" in str(error.value) and "f32[4,5]" in str(error.value)


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_arguments_that_share_memory():
    @jg.compile
    def f(x, y):
        x.add_(1)
        return y * 2

    for _ in range(2):
        base = jg.zeros(4)
        assert f(base[:3], base[1:]).tolist() == [2.0, 2.0, 0.0]
    assert f(jg.zeros(3), jg.zeros(3)).tolist() == [0.0] * 3
    same = jg.zeros(3)
    assert f(same, same).tolist() == [2.0] * 3


def test_a_captured_tensor_as_argument():
    w = jg.zeros(3)

    @jg.compile
    def f(x):
        w.add_(1)
        return x * 2

    for _ in range(2):
        w.zero_()
        assert f(jg.ones(3)).tolist() == [2.0] * 3
        assert f(w).tolist() == [4.0] * 3
        assert w.tolist() == [2.0] * 3


def test_methods_and_decorators():
    class Model:
        def __init__(self, k):
            self.k = k

        @jg.compile
        def scaled(self, x):
            return x * self.k

    a, b = Model(2.0), Model(3.0)
    assert a.scaled(jg.ones(2)).tolist() == [2.0, 2.0]
    assert b.scaled(jg.ones(2)).tolist() == [3.0, 3.0]
    a.k = 4.0
    assert a.scaled(jg.ones(2)).tolist() == [4.0, 4.0]


def test_threads_call_at_once():
    f = jg.compile(lambda x: (x * 2).tanh().sum())
    want = f(X).item()
    wrong = []

    def work():
        for _ in range(50):
            if abs(f(X).item() - want) > 1e-5:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_dump_writes_every_stage(tmp_path):
    f = jg.compile(lambda x: (x * 2 + 1).sum(), dump=str(tmp_path))
    f(X)
    (folder,) = tmp_path.iterdir()
    names = " ".join(sorted(p.name for p in folder.iterdir()))
    stages = ("00-traced.txt", "groups.txt", "kernels.txt", "plan.txt", "llvm.ll", "assembly.s", "graph.dot", "svg")
    for stage in stages:
        assert stage in names
    assert "test_compile.py" in (folder / "00-traced.txt").read_text()


def test_arrays_are_read_at_each_call():
    offset = np.ones(3, "f4")
    f = jg.compile(lambda x: x + jg.from_numpy(offset) + jg.tensor(offset))
    assert f(jg.ones(3)).tolist() == [3.0] * 3
    offset[:] = 5.0
    assert f(jg.ones(3)).tolist() == [11.0] * 3


@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
def test_arrays_made_during_a_call_are_not_frozen():
    state = np.random.default_rng(0)
    f = jg.compile(lambda x: x + jg.tensor(state.standard_normal(3)))
    seen = {f(jg.zeros(3)).tolist()[0] for _ in range(4)}
    assert len(seen) == 4
