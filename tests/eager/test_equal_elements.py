"""Where sorting and selecting leave equal elements: the indices are PyTorch's, natively and in Python."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import backend
from jitgrad.codegen.cpu.arrange import arrange
from jitgrad.ir.ops.arranging import arrange_in_python, order
from jitgrad.ir.unstable_order import ROUTINES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
LENGTHS = (1, 2, 15, 16, 17, 33, 64, 200, 1500)


def pairs(length, dtype, different, seed=0):
    """The same numbers with repetitions as a tensor of each library; with NaN and zeros of either sign among floats."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, different, length).astype(np.float64)
    if dtype == "bool":
        numbers %= 2
    elif "float" in dtype:
        numbers[rng.random(length) < 0.1] = np.nan
        numbers *= rng.choice([-1.0, 1.0], length)
    ours = jg.tensor(numbers).to(getattr(jg, dtype))
    return ours, torch.tensor(numbers).to(getattr(torch, dtype))


def check(ours, theirs, what):
    np.testing.assert_array_equal(ours.indices.numpy(), theirs.indices.numpy(), str(what))
    np.testing.assert_array_equal(ours.values.double().numpy(), theirs.values.double().numpy(), str(what))


@pytest.mark.parametrize("different", [2, 9, 500])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(dtype, different):
    for n in LENGTHS:
        x, t = pairs(n, dtype, different)
        for stable in (False, True):
            for descending in (False, True):
                options = {"descending": descending, "stable": stable}
                check(jg.sort(x, **options), torch.sort(t, **options), (n, options))
        np.testing.assert_array_equal(jg.argsort(x).numpy(), torch.argsort(t).numpy())


@pytest.mark.parametrize("different", [2, 9, 500])
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_topk_and_kthvalue(dtype, different):
    for n in LENGTHS:
        x, t = pairs(n, dtype, different)
        for k in sorted({1, min(2, n), max(1, n // 70), n // 3 + 1, n}):
            check(jg.kthvalue(x, k), torch.kthvalue(t, k), (n, k))
            for largest in (False, True):
                for ordered in (False, True):
                    options = {"largest": largest, "sorted": ordered}
                    check(jg.topk(x, k, **options), torch.topk(t, k, **options), (n, k, options))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_mode(dtype):
    for n in LENGTHS:
        x, t = pairs(n, dtype, 9)
        check(jg.mode(x), torch.mode(t), n)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_dims(dim):
    numbers = np.random.default_rng(1).integers(0, 3, (40, 3, 20))
    x, t = jg.tensor(numbers), torch.tensor(numbers)
    compiled = jg.compile(lambda x: (jg.sort(x + 1, dim), jg.topk(x + 1, 3, dim), jg.kthvalue(x + 1, 2, dim)))
    check(jg.sort(x, dim), torch.sort(t, dim), dim)
    for results in (compiled(x), compiled(x)):
        want = torch.sort(t + 1, dim), torch.topk(t + 1, 3, dim), torch.kthvalue(t + 1, 2, dim)
        for ours, theirs in zip(results, want, strict=True):
            check(ours, theirs, dim)
    check(jg.kthvalue(x, 2, dim, keepdim=True), torch.kthvalue(t, 2, dim, keepdim=True), dim)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
@pytest.mark.parametrize("length", [(1 << 15) - 1, 1 << 15])
def test_long_vectors_of_integers_are_sorted_stably(length, dtype):
    x, t = pairs(length, dtype, 9)
    check(jg.sort(x), torch.sort(t), length)
    check(jg.sort(x, descending=True), torch.sort(t, descending=True), length)
    check(jg.sort(x[None]), torch.sort(t[None]), length)


def hard(n):
    """An order that makes the median of three a bad pivot again and again (Musser, 1997), so that heaps take over."""
    half, found = n // 2, np.zeros(n, np.int64)
    for i in range(1, half + 1):
        if i % 2:
            found[i - 1], found[i] = i, half + i
        found[half + i - 1] = 2 * i
    return found


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_many_bad_pivots(shift):
    for numbers in (np.roll(hard(1000), shift), np.roll(hard(4096), shift) // 4):
        x, t = jg.tensor(numbers), torch.tensor(numbers)
        check(jg.sort(x), torch.sort(t), shift)
        check(jg.topk(x, 300, largest=False), torch.topk(t, 300, largest=False), shift)


def test_the_compiled_routines_are_the_python():
    rng = np.random.default_rng(2)
    for routine in ROUTINES:
        for n in (1, 2, 3, 5, 17, 100, 700):
            words = (rng.integers(-5, 5, (3, n)) << 32) | np.arange(n)
            for k in [()] if routine.__name__ == "sort" else [(1,), (n // 2 or 1,), (n - 1 or 1,)]:
                native, slow = words.copy(), words.copy()
                arrange(routine, native, *k)
                arrange_in_python(routine, slow, *k)
                np.testing.assert_array_equal(native, slow, f"{routine.__name__} {n} {k}")


def test_what_has_one_order_alone_needs_no_routine():
    def never(*_):
        raise AssertionError("a routine was called")

    rng = np.random.default_rng(3)
    for x in (rng.permutation(9000).astype(np.float32), rng.permutation(99), rng.standard_normal((30, 300))):
        np.testing.assert_array_equal(order(x, False, False, never), np.argsort(x, axis=-1))
    order(np.zeros(16), False, False, never)
    order(np.zeros(99), False, True, never)


def test_short_rows_load_no_code_generation(monkeypatch):
    monkeypatch.delitem(backend.sys.modules, "jitgrad.codegen.cpu.arrange")
    assert jg.sort(jg.zeros(20)).indices.tolist() == torch.sort(torch.zeros(20)).indices.tolist()
    assert "jitgrad.codegen.cpu.arrange" not in backend.sys.modules


def test_gradients_go_where_the_indices_say():
    x, t = pairs(100, "float64", 4)
    for f in (lambda m, x: m.topk(x, 30).values, lambda m, x: m.kthvalue(x, 30).values[None]):
        grads = []
        for library, leaf in ((jg, x), (torch, t)):
            leaf = leaf.clone().requires_grad_()
            f(library, leaf).sum().backward()
            grads.append(leaf.grad.numpy())
        np.testing.assert_array_equal(*grads)
