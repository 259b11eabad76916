"""Where Python needs values: functions are compiled in segments, which later calls walk without Python."""

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg

X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))


def small_and_large():
    return [jg.ones(3), jg.tensor(np.linspace(-1, 1.5, 40_000, dtype="f4").reshape(200, 200))]


def both_ways(f, inputs, calls=2):
    """Eager and compiled `f` agree on every input, in this order, several times over; the compiled function."""
    compiled = jg.compile(f)
    for _ in range(calls):
        for x in inputs:
            args = x if isinstance(x, tuple) else (x,)
            mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
            want, got = f(*mine), compiled(*theirs)
            for w, g in zip(flat(want) + mine, flat(got) + theirs, strict=True):
                if isinstance(w, jg.Tensor):
                    assert w.dtype is g.dtype and w.shape == g.shape
                    np.testing.assert_allclose(g.detach().numpy(), w.detach().numpy(), rtol=1e-5, atol=1e-5)
                else:
                    assert type(w) is type(g)
                    assert g == pytest.approx(w, rel=1e-5) if isinstance(w, float) else g == w
    assert not compiled.explain().eager, compiled.explain()
    return compiled


def flat(x):
    return [y for item in x for y in flat(item)] if isinstance(x, (list, tuple)) else [x]


def test_a_branch_on_a_value():
    def f(x):
        y = (x * 2).tanh()
        return y + x if y.sum() > 0 else y - x.exp()

    for x in small_and_large():
        compiled = both_ways(f, [x, -x, x + 1])
        assert len(compiled.explain().specialisations) == 2


def test_later_calls_do_not_run_python():
    f = jg.compile(lambda x: x * 2 if x.sum() > 0 else x * 3)
    for sign in (1, -1, 1, -1, 1):
        assert f(jg.ones(3) * sign).tolist() == [2.0 * sign if sign > 0 else 3.0 * sign] * 3
    explanation = f.explain()
    assert [s.runs for s in explanation.specialisations] == [3, 2]
    assert len(explanation.misses) == 1


def test_nested_branches_and_loops():
    def f(x):
        steps = 0
        while x.norm() > 1:
            x = x / 2
            steps += 1
            if x.sum() < 0:
                x = x.abs()
        return x, steps

    both_ways(f, [X, -X, X * 10, X * 0])


def test_numbers_and_lists_decide():
    def f(x, k):
        n = int(k)
        y = x[:n] * 2
        for i in k.expand(2).tolist():
            y = y + i
        return y, n, k.item()

    both_ways(f, [(X, jg.tensor(2)), (X, jg.tensor(3)), (X, jg.tensor(2))])


def test_assertions_on_values():
    @jg.compile
    def f(x):
        assert (x > 0).all(), "not positive"
        return x.log()

    for _ in range(3):
        assert f(jg.ones(3)).tolist() == [0.0] * 3
        with pytest.raises(AssertionError, match="not positive"):
            f(-jg.ones(3))
    assert len(f.explain().specialisations) == 1


def test_shapes_that_depend_on_values():
    def chosen(x):
        return x[x > 0] * 2

    def found(x):
        rows, columns = (x > 0.5).nonzero(as_tuple=True)
        return x[rows, columns].sum(), rows.shape[0], jg.nonzero(x > 1)

    def distinct(x):
        values, inverse = x.round().unique(return_inverse=True)
        return values * 2, inverse, x.flatten().unique_consecutive()

    def selected(x):
        return x.masked_select(x < 0), jg.argwhere(x)

    for f in (chosen, found, distinct, selected):
        compiled = both_ways(f, [X, X * 0.5, -X, X.flip(0)])
        assert len(compiled.explain().specialisations) >= 2
    f = jg.compile(chosen)
    f(X)
    f(X.flip(0))  # other places, as many
    assert len(f.explain().specialisations) == 1


def test_equal_comparisons_and_counts():
    def f(x, y):
        if jg.equal(x, y) or jg.allclose(x, -y):
            return x * 3
        return x.repeat_interleave((y.flatten()[:2].abs() + 1).long(), 0) if x.shape[0] == 2 else x - y

    both_ways(f, [(X, X), (X, -X), (X, X + 1), (X[:2], X[:2] + 1), (X[:2], X[:2] + 2)])


def test_writes_wait_for_the_end_and_happen_once():
    def f(x, y):
        x.add_(1)
        if x.sum() > 0:
            y.mul_(2)
            x[0] = 7.0
        else:
            y.sub_(x)
        view = x[1:]
        view.mul_(2)
        return x.sum() > 3, view

    def g(x, y):
        flag, view = f(x, y)
        return (view * 2, x) if flag else (view, y)

    both_ways(f, [(X.clone(), X.clone()), (X - 5, X), (X, X)])
    both_ways(g, [(X.clone(), X.clone()), (X - 5, X), (X, X)])


def test_random_numbers_across_segments():
    def f(x):
        y = x + jg.rand(4, 6)
        if y.mean() > 0.5:
            return y + jg.rand(4, 6), jg.randn(3)
        return y * jg.rand(6), jg.randint(0, 9, (5,))

    def program(compile):
        g = compile(f)
        for k in range(8):
            yield g(X + (k % 3))
            yield jg.rand(2)

    agree(program)


def test_gradients_through_segments():
    def program(compile):
        w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)

        def f(x):
            y = (x * w).tanh()
            if y.sum() > 0:
                y = y * w.exp()
            z = y[y > 0.2]
            return (z * 2).sum(), y

        g = compile(f)
        for k in range(6):
            x = ((X if k % 2 else -X) * 1.0).requires_grad_()
            loss, y = g(x)
            gx, gw = jg.autograd.grad(loss + (y * y).sum(), (x, w), create_graph=True)
            yield loss, y, gx, gw
            yield jg.autograd.grad(gx.pow(2).sum() + gw.sum(), (x, w), allow_unused=True)

    agree(program)


def test_a_training_step_that_skips_bad_gradients():
    def program(compile):
        net = jg.nn.Linear(6, 3)
        with jg.no_grad():
            net.weight.copy_(jg.linspace(-1, 1, 18).reshape(3, 6))
            net.bias.zero_()
        optimizer = jg.optim.Adam(net.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = net(x).tanh().pow(2).mean()
            loss.backward()
            norm = jg.nn.utils.clip_grad_norm_(net.parameters(), 0.1, error_if_nonfinite=False)
            if norm > 0.05:
                optimizer.step()
            return loss.detach(), norm

        step = compile(step)
        for k in range(8):
            yield step(X * (k % 3))
            yield net.weight, net.bias, net.weight.grad

    agree(program)


def test_modules_and_modes_of_later_segments_are_guarded():
    def program(compile):
        class Net(jg.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = 2.0
                self.register_buffer("offset", jg.ones(6))
                self.inner = jg.nn.Dropout(0.5)

            def forward(self, x):
                if x.sum() > 0:
                    return self.inner(x) * self.scale + self.offset
                return x - self.offset

        net = compile(Net())
        for k in range(4):
            for sign in (1, -1):
                yield net(X * sign + sign)
            if k == 0:
                net.eval()
            elif k == 1:
                net.scale = 5.0
            elif k == 2:
                net.offset = jg.full((6,), 4.0)

    agree(program)


def test_a_value_that_differs_each_time_is_not_traced_for_ever():
    @jg.compile
    def f(x):
        s = x.sum().item()
        return x * (s + 1)

    with pytest.warns(UserWarning, match="Python runs at each call"):
        for k in range(12):
            np.testing.assert_allclose(f(jg.full((3,), k)).numpy(), k * (3 * k + 1), rtol=1e-6)
    assert len(f.explain().entries) == 1
    assert "Python needs a value" in str(f.explain()) and "test_segments.py" in str(f.explain())


def test_fullgraph_names_the_line_where_the_value_comes_from_and_what_to_use():
    @jg.compile(fullgraph=True)
    def f(x):
        return x if x.sum() > 0 else -x

    @jg.compile(fullgraph=True)
    def g(x):
        return x[x > 0]

    for h in (f, g):
        with pytest.raises(jg.errors.CompileError, match=r"test_segments\.py:\d+ in .*") as error:
            h(X)
        for words in ("from gt at", "jg.where", "jg.cond", "jg.while_loop", "jg.scan"):
            assert words in str(error.value)


def test_segments_compile_once_for_all_shapes():
    @jg.compile
    def f(x):
        y = (x * 2).tanh()
        return y + x if y.sum() > 0 else y - x

    for sign in (1, -1):
        f(jg.ones(3, 5) * sign)
    with jg.assert_no_compile():
        for n in (1, 4, 0, 100):
            for sign in (1, -1):
                f(jg.ones(n, 5) * sign)


def test_what_is_refused_is_refused_in_every_segment():
    def program(compile):
        @compile
        def f(x, m, i):
            jg.linalg.inv(m)
            if x.sum() > 0:
                jg.linalg.inv(m * i)
            return x * 2

        for _ in range(3):
            for sign, number, i in ((1, 1, 1), (1, 0, 1), (-1, 0, 1), (-1, 1, 0), (1, 1, 0), (1, 1, 1)):
                try:
                    yield f(X * sign + sign, jg.eye(2) * number, jg.tensor(i))
                except RuntimeError as error:
                    yield type(error).__name__

    agree(program)


def test_handlers_inside_functions_handle_what_kernels_refuse():
    def program(compile):
        @compile
        def f(x, i):
            y = x.exp()
            try:
                y = y[i]
            except IndexError:
                y = y * 0
            with jg.no_grad():
                z = (y.sum().long() + 7) // i.sum()
            return y + x, z

        for _ in range(3):
            for i in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 9, 0, 0], [0, -4, 1, 1], [0, 0, 0, 0]):
                try:
                    yield f(X, jg.tensor(i))
                except ZeroDivisionError:
                    yield "division"

    agree(program)
