"""Functions of small tensors that are called often: native from some call on, and the same as before."""

import numpy as np
import pytest

import jitgrad as jg
import jitgrad.nn.functional as F
from jitgrad import hot_path, large
from jitgrad.ir.control import Scan

CALLS = {
    "lerp": lambda x, y, i: jg.lerp(x, y, 0.25),
    "tril": lambda x, y, i: x.tril(-1),
    "var": lambda x, y, i: x.var(dim=1),
    "max over a dim": lambda x, y, i: tuple(x.max(dim=0)),
    "gather": lambda x, y, i: x.gather(1, i),
    "cat": lambda x, y, i: jg.cat([x, y, x], dim=1),
    "where": lambda x, y, i: jg.where(x > 0, x, y),
    "softmax": lambda x, y, i: x.softmax(-1),
    "logsumexp": lambda x, y, i: x.logsumexp(0),
    "clamp": lambda x, y, i: x.clamp(min=-0.5),
    "matmul": lambda x, y, i: jg.matmul(x, y),
    "cosine similarity": lambda x, y, i: F.cosine_similarity(x, y, dim=-1),
    "layer norm": lambda x, y, i: F.layer_norm(x, (4,), y[0], y[1]),
    "cross entropy": lambda x, y, i: F.cross_entropy(x, i[:, 0]),
    "a view inside": lambda x, y, i: jg.einsum("ij,kj->ki", x, y),
    "unbiased, of both": lambda x, y, i: jg.var_mean(x),
    "flip": lambda x, y, i: x.flip(0, 1),
    "tile": lambda x, y, i: x.tile(2, 1),
    "repeat_interleave": lambda x, y, i: x.repeat_interleave(2, 0),
    "a type": lambda x, y, i: (x.half(), i.float()),
}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Native from the third call on."""
    monkeypatch.setattr(hot_path, "CALLS", 1)
    jg.compile(lambda x: x + 1)(jg.ones(2))  # the code generator is loaded


def tensors(dtype=jg.float32, requires_grad=True):
    numbers = np.random.default_rng(0).standard_normal((2, 4, 4))
    x, y = (jg.tensor(a, dtype=dtype, requires_grad=requires_grad) for a in numbers)
    return x, y, jg.tensor([[0, 1], [3, 3], [2, 0], [1, -1]]) % 4


def grads_of(function, dtype):
    x, y, i = tensors(dtype)
    results = function(x, y, i)
    results = results if isinstance(results, tuple) else (results,)
    sum((r * r).sum() for r in results if r.requires_grad).backward()
    told = [(r.shape, r.stride(), r.dtype, r.requires_grad, type(r.grad_fn), r._base is None) for r in results]
    return told, [r.detach().numpy().astype(float) for r in results], [t.grad for t in (x, y)]


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_native_calls_are_the_same(name, dtype):
    told, values, grads = grads_of(CALLS[name], dtype)
    rtol = 1e-5 if dtype is jg.float32 else 1e-12
    for _ in range(4):
        told_again, values_again, grads_again = grads_of(CALLS[name], dtype)
        assert [t[:4] + t[5:] for t in told_again] == [t[:4] + t[5:] for t in told]
        assert [str(t[4]) for t in told_again] == [str(t[4]) for t in told]
        for a, b in zip(values, values_again, strict=True):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol)
        for a, b in zip(grads, grads_again, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=rtol, atol=rtol)
    with jg.no_grad():
        for _ in range(4):
            x, y, i = tensors(dtype)
            found = CALLS[name](x, y, i)
            for a, r in zip(values, found if isinstance(found, tuple) else (found,), strict=True):
                assert not r.requires_grad
                np.testing.assert_allclose(r.numpy().astype(float), a, rtol=rtol, atol=rtol)


def test_some_calls_are_native():
    """Otherwise the tests here would show nothing."""
    x, y, _ = tensors()
    made = []
    before = hot_path.Capture.make
    try:
        hot_path.Capture.make = staticmethod(lambda *args: made.append(before(*args)) or made[-1])
        for _ in range(4):
            jg.lerp(x, y, 0.375)
    finally:
        hot_path.Capture.make = staticmethod(before)
    assert len(made) == 1 and made[0] is not None


def test_errors_are_those_of_the_function():
    x, _, _ = tensors()
    for index in (0, 0, 0, 0, 7, 0, -9):
        i = jg.full((4, 1), index)
        if -4 <= index < 4:
            x.gather(1, i.abs())
            continue
        with pytest.raises(IndexError, match="out of bounds"):
            x.gather(1, i)
    for _ in range(4):
        with pytest.raises(RuntimeError):
            jg.lerp(x, jg.ones(3), 0.5)


def test_what_the_types_do_not_tell_is_seen():
    """Strides, numbers that are equal but not the same, grad mode, writes to what was saved, random functions."""
    x, y, _ = tensors(requires_grad=False)
    for _ in range(4):
        np.testing.assert_allclose(jg.lerp(x.t(), y, 0.5).numpy(), (x.numpy().T + y.numpy()) / 2, rtol=1e-6)
        assert jg.lerp(x.t(), y.t(), 0.5).stride() == (x.t() + y.t()).stride()
        assert str(jg.fmax(jg.tensor([-0.0]), jg.tensor([-0.0])).item()) == "-0.0"
        for zero in (0.0, -0.0):
            assert str(jg.full((2,), 5.0).masked_fill(jg.tensor([True, False]), zero)[0].item()) == str(zero)
        assert jg.sum(jg.tensor([True, True])).dtype is jg.int64
    assert not jg.equal(F.dropout(x, 0.5), F.dropout(x, 0.5))
    w = x.clone().requires_grad_()
    for _ in range(5):
        z = jg.softmax(w * 1, 0)
        z.detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()


def test_in_place_forms_take_native_values():
    for _ in range(5):
        x, y, _ = tensors()
        z = x * 1
        z.lerp_(y, 0.5)
        (z * z).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), z.detach().numpy(), rtol=1e-6)


def test_random_numbers_are_the_same_before_and_after():
    def drawn():
        jg.manual_seed(5)
        return [(jg.rand(5).tolist(), jg.randint(0, 1000, (4,)).tolist()) for _ in range(6)]

    first = drawn()
    assert drawn() == first


def test_filled_tensors_keep_the_sign_of_zero_and_their_types():
    assert str(jg.full((2,), -0.0)[0].item()) == "-0.0"
    for dtype in (jg.float32, jg.bfloat16, jg.bool, jg.int8, jg.complex64):
        assert jg.ones(2, dtype=dtype).dtype is dtype and jg.zeros(2, dtype=dtype).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="negative dimension"):
        jg.zeros(-1)


def test_operators_of_whole_numbers_check_their_divisors():
    a = jg.tensor([7, -7, 5])
    for _ in range(4):
        assert (a // 2).tolist() == [3, -4, 2] and (a % jg.tensor([3, 3, -3])).tolist() == [1, 2, -1]
        assert (~(a > 0) & (a < 0)).tolist() == [False, True, False]
        with pytest.raises((ZeroDivisionError, RuntimeError)):
            a // jg.tensor([1, 0, 1])


@pytest.mark.parametrize("function", [jg.i0, jg.digamma, jg.special.i1, jg.special.i0e], ids=lambda f: f.__name__)
def test_functions_in_single_precision_have_the_same_bits(function, monkeypatch):
    numbers = np.random.default_rng(0).uniform(-20, 20, (2, 300)).astype(np.float32)
    numbers[0, :6] = 0, -0.0, -1, np.inf, -np.inf, np.nan
    native, make = [], large._native
    monkeypatch.setattr(large, "_native", lambda op, types: native.append(make(op, types)) or native[-1])
    x = jg.tensor(numbers)
    want = function(x).numpy().tobytes()
    for _ in range(4):
        assert function(x).numpy().tobytes() == want
        assert np.array_equal(function(x.t()).numpy(), function(x).numpy().T, equal_nan=True)
        assert function(x.double()).dtype is jg.float64
    assert native and None not in native
    w = x[1].clone().requires_grad_()
    function(w).sum().backward()
    assert w.grad.dtype is jg.float32


DRAWS = {
    "rand": lambda x, p: jg.rand(5),
    "a type": lambda x, p: jg.rand(2, 3, dtype=jg.float64),
    "randint": lambda x, p: jg.randint(0, 1000, (4,)),
    "rand_like": lambda x, p: jg.rand_like(x),
    "randn": lambda x, p: jg.randn(7),
    "normal": lambda x, p: jg.normal(1.0, 2.0, (300,)),
    "bernoulli": lambda x, p: jg.bernoulli(p),
    "dropout": lambda x, p: F.dropout(x, 0.3),
    "a generator": lambda x, p: jg.rand(3, generator=jg.Generator().manual_seed(8)),
    "filled": lambda x, p: jg.zeros(3, 2).uniform_(-1, 1).add_(jg.zeros(3, 2).normal_()),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_the_same_before_and_after_and_move_on_as_far(name):
    x = jg.linspace(-1, 1, 100).view(10, 10).requires_grad_()
    p = jg.linspace(0, 1, 11)
    seen = []
    for _ in range(5):
        jg.manual_seed(5)
        made = DRAWS[name](x, p)
        x.grad = None
        if made.requires_grad:
            made.sum().backward()
        seen.append((made.tolist(), jg.random.default_generator.offset, x.grad is not None and x.grad.tolist()))
    assert all(s == seen[0] for s in seen)


def test_probabilities_are_checked_on_every_call_and_a_refused_draw_uses_up_nothing():
    for _ in range(5):
        jg.bernoulli(jg.full((3,), 0.5))
        before = jg.random.default_generator.offset
        with pytest.raises(RuntimeError, match="between"):
            jg.bernoulli(jg.tensor([0.5, 1.5, 0.0]))
        assert jg.random.default_generator.offset in (before, before + 3)  # eagerly the check comes first


@pytest.mark.parametrize("requires_grad", [False, True])
def test_strided_tensors_are_copied_where_results_are_row_major(requires_grad):
    numbers = np.random.default_rng(0).standard_normal((3, 4, 5))
    for call in (
        lambda t: jg.bmm(t, t.mT), lambda t: t.softmax(0), lambda t: t.sum(1), lambda t: jg.cat([t, t[:, :1]], 1),
        lambda t: jg.lerp(t, t * 2, 0.5), lambda t: t.gather(2, jg.zeros(5, 4, 1, dtype=jg.int64)),
    ):  # fmt: skip
        seen = []
        for _ in range(6):
            leaf = jg.tensor(numbers, requires_grad=requires_grad)
            out = call(leaf.permute(2, 1, 0))
            if requires_grad:
                (out * out).sum().backward()
            seen.append((out.detach().numpy(), out.stride(), leaf.grad))
        for array, stride, grad in seen:
            np.testing.assert_allclose(array, seen[0][0], rtol=1e-12)
            assert stride == seen[0][1]
            if requires_grad:
                np.testing.assert_allclose(grad.numpy(), seen[0][2].numpy(), rtol=1e-12)


def test_operands_of_two_types_and_kinds_are_promoted_as_at_first():
    x, i, h = jg.tensor([1.5, -2.0]), jg.tensor([3, -4]), jg.tensor([0.5, 2.0], dtype=jg.float16)
    for call in (
        lambda: x + i, lambda: i / 2, lambda: h * i, lambda: x**i, lambda: 2**i.abs(), lambda: i // 2.5, lambda: x > i,
        lambda: jg.add(x, i, alpha=2), lambda: jg.sub(i, i, alpha=3), lambda: jg.div(x, i, rounding_mode="floor"),
        lambda: x.sign(), lambda: i.sign(), lambda: (i > 0).sign(), lambda: i.square(), lambda: (i > 0).square(),
    ):  # fmt: skip
        seen = [call() for _ in range(5)]
        assert all(s.dtype is seen[0].dtype and s.tolist() == seen[0].tolist() for s in seen)


def test_what_is_made_of_equal_numbers_again_is_a_tensor_of_its_own():
    for _ in range(3):
        for made in (jg.zeros(3), jg.arange(3.0), jg.full((3,), 2.0), jg.ones_like(jg.zeros(3)), jg.hann_window(3)):
            before = made.tolist()
            made += 1
            assert made.tolist() != before
        assert jg.arange(3).dtype is jg.int64 and jg.arange(3.0).dtype is jg.float32
        assert jg.full((1,), 1).dtype is jg.int64 and jg.full((1,), True).dtype is jg.bool
        assert [str(jg.full((1,), z).item()) for z in (0.0, -0.0)] == ["0.0", "-0.0"]
        assert [jg.full((1,), jg.tensor(v)).item() for v in (1.0, 2.0)] == [1.0, 2.0]
        assert [jg.arange(jg.tensor(n)).shape[0] for n in (1, 2)] == [1, 2]
        assert jg.zeros(2, requires_grad=True).requires_grad and not jg.zeros(2).requires_grad
        assert jg.zeros(2, requires_grad=True).is_leaf
        assert jg.zeros_like(jg.zeros(2, dtype=jg.int8)).dtype is jg.int8
        assert jg.zeros(2, out=jg.ones(2)).tolist() == [0, 0]
        with pytest.raises(TypeError):
            jg.zeros(3.0)
        try:
            jg.set_default_dtype(jg.float64)
            assert jg.zeros(3).dtype is jg.float64
        finally:
            jg.set_default_dtype(jg.float32)
        assert jg.zeros(3).dtype is jg.float32
    assert jg.compile(lambda: jg.zeros(3) + jg.arange(3))().tolist() == [0, 1, 2]


@pytest.mark.parametrize("steps, batch", [(3, 2), (40, 30)], ids=["small", "of many steps"])
def test_time_loops_are_native_where_they_come_often(steps, batch, monkeypatch):
    interpreted = []
    reference = Scan.reference
    monkeypatch.setattr(Scan, "reference", lambda op, *data: interpreted.append(op) or reference(op, *data))
    lstm = jg.nn.LSTM(4, 5)
    x = jg.rand(batch, steps, 4).transpose(0, 1).requires_grad_()
    seen = []
    for _ in range(40):
        lstm.zero_grad()
        out, (_, cell) = lstm(x)
        (out.sum() + cell.sum()).backward()
        seen.append([t.detach().numpy() for t in (out, cell, lstm.weight_ih_l0.grad, lstm.weight_hh_l0.grad)])
    assert 0 < sum(op.sequences == 1 for op in interpreted) < 3, "the others are gradients"
    for some in seen:
        for a, b in zip(some, seen[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


HOST_CALLS = {
    "sort": lambda x, y, i: tuple(x.sort(dim=1, descending=True)),
    "argsort": lambda x, y, i: x.argsort(0),
    "topk": lambda x, y, i: tuple(x.topk(2)),
    "kthvalue": lambda x, y, i: tuple(x.kthvalue(3, dim=0)),
    "mode": lambda x, y, i: tuple(i.mode()),
    "searchsorted": lambda x, y, i: jg.searchsorted(x[0].detach().sort().values, y[0], right=True),
    "bucketize": lambda x, y, i: jg.bucketize(y, jg.tensor([-1, 0, 1])),
    "isin": lambda x, y, i: jg.isin(i, jg.tensor([1, 2])),
    "cholesky": lambda x, y, i: jg.linalg.cholesky(x @ x.T + 4 * jg.eye(4, dtype=x.dtype)),
    "solve": lambda x, y, i: jg.linalg.solve(x + 9 * jg.eye(4, dtype=x.dtype), y),
    "det": lambda x, y, i: jg.linalg.det(x),
    "eigvalsh": lambda x, y, i: jg.linalg.eigvalsh(x + x.T),
}


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64], ids=str)
@pytest.mark.parametrize("name", HOST_CALLS)
def test_calls_of_the_host_are_the_same_to_the_bit(name, dtype):
    def outcome(strided):
        x, y, i = tensors(dtype)
        found = HOST_CALLS[name](x.T, y, i) if strided else HOST_CALLS[name](x, y, i)
        results = found if isinstance(found, tuple) else (found,)
        if any(r.requires_grad for r in results):
            sum(r.sum() for r in results if r.requires_grad).backward()
        told = [
            (r.shape, r.stride(), r.dtype, str(r.grad_fn), r._base is None, r.detach().numpy().tobytes())
            for r in results
        ]
        return told, [None if t.grad is None else t.grad.numpy().tobytes() for t in (x, y)]

    for strided in (False, True):
        first = outcome(strided)
        assert all(outcome(strided) == first for _ in range(4))


def test_what_the_host_refuses_is_said_by_the_function():
    good, bad = jg.eye(3), -jg.eye(3)
    for _ in range(5):
        jg.linalg.cholesky(good)
        with pytest.raises(jg.linalg.LinAlgError, match="not positive-definite"):
            jg.linalg.cholesky(bad)
    for _ in range(5):
        with pytest.raises(RuntimeError, match="out of range"):
            good.topk(4)


@pytest.mark.parametrize("name", ["solve", "inv", "det", "cholesky", "slogdet", "eigh", "svd", "qr"])
def test_writes_after_a_call_of_the_host_are_taken_or_refused_as_at_first(name):
    def outcome():
        leaf = (jg.diag(jg.tensor([2.0, 3.0, 5.0])) + 0.5).requires_grad_()
        a = leaf * 1
        out = jg.linalg.solve(a, jg.ones(3)) if name == "solve" else getattr(jg.linalg, name)(a)
        a.detach().mul_(2)
        try:
            sum(t.abs().sum() for t in (out if isinstance(out, tuple) else (out,))).backward()
        except RuntimeError as error:
            return str(error)
        return leaf.grad.tolist()

    first = outcome()
    assert all(outcome() == first for _ in range(4))


def test_named_tensors_are_native_and_what_is_written_to_is_no_argument(monkeypatch):
    made = []
    before = hot_path.Capture.make
    monkeypatch.setattr(hot_path.Capture, "make", staticmethod(lambda *args: made.append(before(*args)) or made[-1]))
    x, y, i = tensors(requires_grad=False)
    masks = [jg.zeros(4, 4), jg.full((4, 4), -jg.inf).triu(1)]
    for _ in range(5):
        assert x.gather(dim=1, index=i).tolist() == np.take_along_axis(x.numpy(), i.numpy(), 1).tolist()
        for mask in masks:
            out = F.scaled_dot_product_attention(x[None], y[None], x[None], attn_mask=mask)
            by_hand = (x @ y.T / 2 + mask).softmax(-1) @ x
            np.testing.assert_allclose(out[0].numpy(), by_hand.numpy(), rtol=1e-5, atol=1e-6)
        given = jg.zeros(4, 4)
        assert jg.lerp(x, y, weight=0.5, out=given) is given
        np.testing.assert_allclose(given.numpy(), (x.numpy() + y.numpy()) / 2, rtol=1e-5, atol=1e-7)
    assert any(made)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_in_place_forms_write_through_views_and_count(requires_grad):
    for _ in range(4):
        leaf = jg.zeros(2, 3).requires_grad_(requires_grad)
        base = leaf * 1
        part, before = base[0], base._version
        part.lerp_(jg.ones(3), 0.5)
        base.t().clamp_(0.25, 0.75)
        base[:, 0].masked_fill_(jg.tensor([True, False]), 7.0)
        assert base.tolist() == [[7.0, 0.5, 0.5], [0.25, 0.25, 0.25]] and base._version == before + 3
        if requires_grad:
            base.sum().backward()
            assert leaf.grad.tolist() == [[0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]
