"""Writes to arguments that share memory or values, or are views of what the caller keeps: as eagerly at each call."""

import numpy as np
import pytest
from programs_compared import agree

import jitgrad as jg


def _leaf():
    return jg.tensor(np.linspace(-1, 1, 12).reshape(4, 3), dtype=jg.float64, requires_grad=True)


def _one_value_written_to_two_arguments(a, c):
    c.fill_(0.3)
    a.copy_(c)
    return a.sum()


def _one_result_written_to_two_arguments(a, c):
    t = a.exp() + c
    a.copy_(t)
    c.copy_(t)
    return t


def _one_value_in_two_results(a, c):
    t = a + c
    u = jg.zeros_like(t)
    u.copy_(t)
    a.copy_(t)
    return [t, u]


@pytest.mark.parametrize(
    "f", [_one_value_written_to_two_arguments, _one_result_written_to_two_arguments, _one_value_in_two_results]
)
def test_one_value_written_to_two_arguments(f):
    def program(compile):
        call = compile(f)
        for n in (3, 3, 5, 5):
            a, c = jg.linspace(0, 1, n), jg.linspace(1, 2, n)
            result = call(a, c)
            yield result, a, c
            (result[0] if isinstance(result, list) else result).add_(1)
            yield result, a, c

    agree(program)


def _a_part(a, c):
    c.diagonal().fill_(1)
    return (a * 2).sum()


def _shifted(a, c):
    c[1:] = c[:-1].clone()
    return (a[1:] * 2).sum()


def _transposed(a, c):
    c.t().mul_(2)
    return a.sum()


def _through_an_expanded_view(a, c):
    c.expand_as(c).copy_(a * 3)
    return c.sum()


@pytest.mark.parametrize("f", [_a_part, _shifted, _transposed, _through_an_expanded_view])
def test_gradients_of_a_written_argument_reach_what_it_is_a_view_of(f):
    def program(compile):
        call = compile(f)
        for share in (False, True, False, True):
            leaf = _leaf()
            h = leaf * 1
            a = h[:-1]
            c = a[...] if share else (_leaf() * 2)[1:]
            (call(a, c) + (a * a).sum() + (h * 3).sum() + (c * 5).sum()).backward()
            yield leaf.grad, h, a, c

    agree(program)


def _read_after_a_write(a, b, c):
    b.clamp_(-0.5, 0.5)
    return a * 1


def _copied_after_a_write(a, b, c):
    b.clamp_(-0.5, 0.5)
    b.copy_(a)
    return c * 2


def _copied_to_another_after_a_write(a, b, c):
    b.clamp_(-0.5, 0.5)
    c.copy_(a)
    return b + c


def _turned_after_a_write(a, b, c):
    b.clamp_(-0.5, 0.5)
    turned, cloned = a.flip(0), a.clone()
    a.add_(1)
    return [turned, cloned]


@pytest.mark.parametrize(
    "f", [_read_after_a_write, _copied_after_a_write, _copied_to_another_after_a_write, _turned_after_a_write]
)
def test_views_of_different_tensors_that_share_memory(f):
    def program(compile):
        call = compile(f)
        for n in (10, 10, 10, 12, 10):
            h = jg.linspace(-1, 1, n) * 1
            a, b, c = h[:-1], h[:-1].detach(), jg.linspace(-3, 3, n - 1)
            yield call(a, b, c), a, b, c

    agree(program)


def test_contiguous_is_contiguous_where_a_trace_ends():
    def program(compile):
        seen = []

        def f(x):
            t = x.t().contiguous()
            seen.append(t)
            print(end="")
            flat = t.view(-1)
            flat[0] = 7
            return t

        call = compile(f)
        for n in (3, 3, 4, 3):
            t = call(jg.rand(n, 2))
            yield t, t.stride(), t.is_contiguous(), seen[-1] is t

    agree(program)


def test_views_that_repeat_elements_where_a_trace_ends():
    def program(compile):
        kept = []

        def f(x):
            t = x * 2
            kept.append(t)
            shown = t.expand(2, *t.shape).unfold(0, 2, 1)
            print(end="")
            t[0] = 7
            return shown

        call = compile(f)
        for n in (3, 3, 4, 3):
            yield call(jg.rand(n, 2)), kept[-1]

    agree(program)


@pytest.mark.parametrize("part", [lambda b: b.chunk(2)[0], lambda b: b[:1], lambda b: b.diagonal()])
def test_memory_of_an_argument_that_is_a_view(part):
    def f(b):
        t = part(b).as_strided((2,), (1,), 1)
        t.mul_(2)
        return t

    def program(compile):
        call = compile(f)
        for k in (1, 1, 0, 2, 1):
            h = jg.arange(12.0).reshape(4, 3)
            yield call(h[k:]), h

    agree(program)


def _given_shapes():
    """Arguments that share memory in several ways, and what they are views of."""
    for k in range(8):
        h = jg.tensor(np.linspace(-1, k + 1, 20).reshape(5, 4))
        a = h[:-1]
        yield h, [(a, h[1:], h[0]), (a, h[0], h * 1), (a, a, a), (a, a.view(-1), a[0]), (a * 1, h[:2] * 1, h)][k % 5]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.filterwarnings("ignore:.*Python runs at each call")
@pytest.mark.parametrize(
    "write",
    [
        lambda a, b, c: jg.add(a, 1, out=b),
        lambda a, b, c: jg.sum(a, 0, out=b),
        lambda a, b, c: jg.sum(a.mul_(2), 0, out=b).add_(1),
        lambda a, b, c: jg.sum(a, 0, out=a),
        lambda a, b, c: jg.cumsum(b.add_(1), 0, out=a[0]),
        lambda a, b, c: jg.cat([a, a], out=b),
    ],
)
def test_out_of_another_shape_that_shares_memory(write):
    def program(compile):
        @compile
        def f(a, b, c):
            return write(a, b, c), a * 1, b * 1, c * 1

        for h, given in _given_shapes():
            results = f(*given)
            yield results, given, h
            results[0].add_(1)
            yield results, given, h

    agree(program)


def _with_grad_off(a):
    b = a * 2
    with jg.no_grad():
        return a.view(-1), a[1:], b[0], b.view(-1)[2:], (a * 3).view(-1)


def _with_grad_on(a):
    with jg.enable_grad():
        return a.view(-1), a[1:], (a * 2)[0]


def _leaves_of_their_own(a):
    b = a.detach()[1:]
    b.requires_grad_()
    c = (a.detach() * 2).view(-1)
    c.requires_grad_()
    return b, c, a.detach().view(-1)


def _before_a_write(a):
    b = a * 1
    with jg.no_grad():
        c = b.view(-1)
        b.mul_(2)
    return c, b


@pytest.mark.parametrize("f", [_with_grad_off, _with_grad_on, _leaves_of_their_own, _before_a_write])
@pytest.mark.parametrize("is_on", [True, False])
def test_views_are_recorded_where_they_are_made(f, is_on):
    def program(compile):
        call = compile(f)
        for _ in range(3):
            a = _leaf()
            with jg.set_grad_enabled(is_on):
                results = call(a)
            yield results
            recorded = [r.sum() for r in results if r.requires_grad and not r.is_leaf]
            if recorded:
                sum(recorded).backward()
            yield a.grad

    agree(program)


def _writes(a, b):
    a.add_(1)
    v = a[1:]
    v.mul_(2)
    b.copy_(a)
    return v


def _writes_in_branches(a, b):
    if a.sum() > 3:
        a.mul_(2)
    b.add_(a)
    b[0] = 1


@pytest.mark.parametrize("f", [_writes, _writes_in_branches])
def test_writes_are_counted_one_by_one(f):
    def program(compile):
        call = compile(f)
        a, b = jg.ones(3), jg.ones(3)
        for _ in range(20):
            call(a, b)
            yield a._version, b._version
        call(a, a)
        yield a._version

    agree(program)


@pytest.mark.parametrize("optimizer", [jg.optim.SGD, jg.optim.Adam])
def test_steps_are_counted_once(optimizer):
    def program(compile):
        net = jg.nn.Sequential(jg.nn.Linear(3, 2), jg.nn.BatchNorm1d(2))
        opt = optimizer(net.parameters(), 0.1)
        first = [(t, t._version) for t in (*net.parameters(), *net.buffers())]

        @compile
        def step(x):
            opt.zero_grad()
            net(x).sum().backward()
            opt.step()

        for n in range(6):
            step(jg.ones(2, 3))
            counts = [t._version - before for t, before in first]
            yield counts
            assert counts == [n + 1] * len(counts)

    agree(program)
