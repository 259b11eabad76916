"""Functions whose effects a replay could not repeat: Python runs at each call, and kernels are reused."""

import collections
import contextlib
import io
import logging
import random
import time

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg
from jitgrad.compiler import effects
from jitgrad.counters import counters
from jitgrad.mode import local

X = jg.tensor(np.linspace(-2, 3, 24, dtype="f4").reshape(4, 6))
QUIET = pytest.mark.filterwarnings("ignore:.*Python runs at each call")


def test_the_user_is_told_once_with_the_line():
    @jg.compile
    def f(x):
        print("value", x.sum(), file=out)
        return x * 2

    out = io.StringIO()
    with pytest.warns(UserWarning, match="Python runs at each call.*print") as caught:
        for _ in range(6):
            f(X)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert out.getvalue().count("value") == 6


def test_printing_values():
    def program(compile):
        @compile
        def f(x):
            y = x * 2
            print(y, f"{y.sum():.3f}", round(y[0, 0].item(), 4), file=out)
            y.add_(1)
            print(y.shape, y.mean(), file=out)
            return y

        for k in range(10):
            out = io.StringIO()
            yield f(X + k)
            yield out.getvalue()

    agree(program)


def test_appending_storing_and_logging():
    def program(compile):
        logger, told = logging.Logger("told"), []
        logger.addHandler(logging.Handler())
        logger.handlers[0].emit = lambda record: told.append(record.getMessage())
        history, named, queue = [], {}, collections.deque(maxlen=3)

        class Holder:
            last = None

        holder = Holder()

        @compile
        def f(x):
            y = (x * 2).tanh()
            history.append(y)
            named[f"{len(history)}"] = y + 1
            queue.append(y.sum())
            holder.last = y[0]
            logger.info("mean %.4f", y.mean())
            return y.exp()

        for k in range(9):
            yield f(X + k)
            yield history, named, list(queue), holder.last, told
        history[0].add_(1)
        yield history

    agree(program)


def test_numbers_that_are_logged_or_kept():
    def program(compile):
        losses = []
        w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f4"), requires_grad=True)
        optimizer = jg.optim.SGD([w], lr=0.05, momentum=0.9)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = ((x * w).tanh() ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            return loss.item() * 2

        for k in range(10):
            yield step(X + 0.1 * k), w, w.grad
            yield losses

    agree(program)


def test_random_clocks_and_counters():
    def program(compile):
        state = {"calls": 0}
        rng = random.Random(3)

        @compile
        def f(x):
            state["calls"] += 1
            if rng.random() > 0.5:
                x = x * rng.random()
            return x + state["calls"] + jg.rand(6)

        for _ in range(10):
            yield f(X), state

    agree(program)


@QUIET
def test_clocks_differ():
    f = jg.compile(lambda x: (x + 1, time.perf_counter()))
    times = [f(X)[1] for _ in range(10)]
    assert times == sorted(set(times))


def test_writes_to_arguments_and_captured_tensors():
    def program(compile):
        total, seen = jg.zeros(6), []

        @compile
        def f(x):
            view = x[1:]
            view.mul_(2)
            total.add_(x.sum(0))
            seen.append(total.tolist())
            x[0] = total
            rows = x.t()
            rows[0] = 5.0
            return rows, view, x

        for k in range(9):
            x = X + k
            rows, view, same = f(x)
            yield rows, view, x, total, seen, same is x
            rows.add_(1)
            yield x, view

    agree(program)


def test_gradients_of_what_is_traced_anew():
    def program(compile):
        w = jg.tensor(np.linspace(0.5, 1, 6, dtype="f8"), requires_grad=True)
        kept = []

        @compile
        def f(x):
            y = (x * w).tanh()
            kept.append(float(y.sum()))
            z = y * w.exp()
            y2 = z.clone()
            y2.mul_(w)
            return (z * y2).sum(), z

        for k in range(9):
            x = (X.double() * (0.2 * k)).requires_grad_()
            loss, z = f(x)
            gx, gw = jg.autograd.grad(loss, (x, w), create_graph=True)
            yield loss, z, gx, gw
            (h,) = jg.autograd.grad(gx.sum() + gw.sum(), w)
            yield h
            f(x)[0].backward()
            yield w.grad, x.grad

    agree(program)


def test_a_backward_between_effects():
    def program(compile):
        net = jg.nn.Sequential(jg.nn.Linear(6, 4), jg.nn.Tanh(), jg.nn.Linear(4, 1))
        with jg.no_grad():
            for i, p in enumerate(net.parameters()):
                p.copy_(jg.linspace(-1, 1, p.numel()).reshape(p.shape) * (i + 1) * 0.3)
        optimizer = jg.optim.Adam(net.parameters(), lr=0.02)
        schedule = jg.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        told = []

        @compile
        def step(x):
            loss = net(x).pow(2).mean()
            if loss.item() > 1e6:
                raise ValueError("diverged")
            loss.backward()
            told.append(net[0].weight.grad.norm().item())
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            return loss

        for k in range(9):
            yield step(X + 0.1 * k), told
            yield list(net.parameters())

    agree(program)


def test_compiled_functions_inside_replay():
    inner = jg.compile(lambda x: (x * 2).tanh() + 1)
    net = jg.compile(jg.nn.Linear(6, 2))

    def program(compile):
        seen = []

        @compile
        def f(x):
            seen.append(x.sum().item())
            return net(inner(x)), inner(x + 1)

        for k in range(9):
            yield f(X + k), seen

    agree(program)
    assert len(inner.explain().specialisations) == 1
    assert inner.explain().specialisations[0].runs > 10


def test_errors_keep_what_happened_before():
    def program(compile):
        seen = []
        table = jg.nn.Embedding(4, 2)
        with jg.no_grad():
            table.weight.copy_(jg.arange(8.0).reshape(4, 2))

        @compile
        def f(x, i):
            x.add_(1)
            seen.append(x.sum())
            try:
                y = table(i) * 2
            except IndexError:
                seen.append("refused")
                y = table.weight * 0
            x.mul_(2)
            if seen[0] == "never":
                return x
            return y.sum() + x.sum() // jg.tensor(1)

        x = jg.zeros(3)
        for k in range(9):
            yield f(x, jg.tensor([0, 9 if k % 3 == 1 else 1])), x, seen

        @compile
        def g(x, n):
            x.add_(1)
            seen.append(x.sum())
            return (x.long() // n).sum()

        for k in range(9):
            try:
                yield g(x, jg.tensor(k % 3))
            except ZeroDivisionError as error:
                yield type(error).__name__
            except RuntimeError as error:
                yield "RuntimeError" if isinstance(error, RuntimeError) else ""
            yield x, seen

    agree(program)


@QUIET
@pytest.mark.parametrize("slow", ["traced", "eager"])
def test_the_faster_way_is_kept_and_told(slow):
    seen = []

    @jg.compile
    def f(x):
        seen.append(1)
        if (local.mode.tracer is None) == (slow == "eager"):
            time.sleep(0.01)
        return x * 2 + 1

    for _ in range(14):
        np.testing.assert_allclose(f(X).numpy(), X.numpy() * 2 + 1)
    (rerun,) = f.explain().eager
    assert rerun.is_eager == (slow == "traced")
    assert ("kernels are reused" if slow == "eager" else "eager (traced anew") in str(f.explain())
    assert len(seen) == 14


@QUIET
def test_numbers_that_change_compile_nothing():
    seen = []

    @jg.compile
    def f(x, scale):
        seen.append(scale)
        return (x * scale).tanh() + scale

    wide = jg.rand(300, 300)
    for k in range(14):  # by then it is settled which way is faster
        f(wide, 0.5 + k)
    with jg.assert_no_compile():
        for k in range(20):
            np.testing.assert_allclose(f(wide, k / 7).numpy(), np.tanh(wide.numpy() * (k / 7)) + k / 7, rtol=1e-4)


def test_arrays_shared_with_numpy():
    def program(compile):
        seen = []

        @compile
        def f(x):
            array = np.ones(6, "f4") * len(seen)
            y = x + jg.from_numpy(array)
            array[:] = 100.0
            seen.append(x.numpy().sum())
            shared = y.numpy()
            shared[0] = 7.0
            y.add_(1)
            return y, y.detach().numpy().copy().tolist()

        for k in range(9):
            yield f(X + k), seen

    agree(program)


def test_context_managers_and_generators():
    def program(compile):
        out = io.StringIO()

        @compile
        def f(x):
            with contextlib.redirect_stdout(out), jg.no_grad():
                for part in (x * k for k in range(3)):
                    print(round(part.sum().item(), 3))
            return x.sum()

        for k in range(9):
            x = (X + k).requires_grad_()
            y = f(x)
            y.backward()
            yield y, x.grad, out.getvalue()

    agree(program)


def test_writes_whose_value_was_computed_at_once():
    def program(compile):
        kept = []

        @compile
        def f(x):
            kept.append(1)
            t = x * 1
            t[[1, 0]] = 0.25
            return t, (t * t).sum()

        for k in range(12):
            x = (X + k).requires_grad_()
            t, total = f(x)
            total.backward()
            yield t, x.grad

    agree(program)


def test_states_of_random_generators():
    def program(compile):
        g = jg.Generator().manual_seed(5)

        @compile
        def f(x):
            y = x + jg.rand(6, generator=g)
            state = g.get_state()
            z = jg.rand(3, generator=g)
            g.set_state(state)
            return y, z, jg.rand(3, generator=g)

        for _ in range(10):
            yield f(X)

    agree(program)


def test_gradients_of_values_overwritten_where_the_trace_had_ended():
    def program(compile):
        @compile
        def f(b):
            b.copy_(b)
            b.sin_()
            return b

        for k in range(8):
            x = (X * (k + 1) / 8).requires_grad_()
            f(x * 1).sum().backward()
            yield x.grad

    agree(program)


def test_clocks_that_libraries_read_for_us_are_no_effect():
    class Tracer:
        lost = None

    tracer, scope = Tracer(), {"__name__": "pytest", "perf_counter": time.perf_counter}
    inside = {"__name__": "jitgrad.backend"}
    exec("def clock(): return perf_counter()", scope)
    exec("def call(f): return f()", inside)
    with effects.noticed(tracer, True):
        inside["call"](scope["clock"])
    assert tracer.lost is None
    with effects.noticed(tracer, True):
        scope["clock"]()
    assert tracer.lost == "the call uses perf_counter()"


def test_writes_to_copies_are_none_of_the_original():
    def program(compile):
        @compile
        def f(b, c):
            c[-1].mul_(b)
            t = b.flip(0)
            t.mul_(2)
            return t, b.tile(2).add_(1), c

        for k in range(8):
            x, b = (X + k).reshape(2, -1).requires_grad_(), jg.linspace(0, k, X.numel() // 2)
            t, u, c = f(b, x * 1)
            c.sum().backward()
            yield t, u, x.grad, b._version

    agree(program)


def test_a_call_that_is_not_kept_is_compiled_if_it_is_much_work():
    def first_call(n):
        weight = jg.nn.Parameter(jg.ones(n, n) / n)
        optimizer = jg.optim.Adam([weight], lr=0.1)

        def step(x):
            assert len(optimizer.state) == 0  # code that looks at what the call begins
            optimizer.zero_grad()
            ((x @ weight).tanh() @ weight.t()).square().mean().backward()
            optimizer.step()

        before = counters.graphs
        jg.compile(step)(jg.ones(n, n))
        return counters.graphs - before, weight.detach().clone()

    (few, _), (many, trained) = first_call(8), first_call(1024)
    assert few == 0 and many >= 1
    np.testing.assert_allclose(trained.numpy(), np.full((1024, 1024), 1 / 1024 - 0.1, "f4"), rtol=1e-5)
