"""The Python array API standard: the namespace's functions against NumPy, and libraries that are written for it."""

import sys

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import array_api as xp

X = np.array([[3.0, -1.5, 2.0], [0.5, 4.0, -2.5]])
V = np.array([3, 1, 2, 3], np.int64)
M = np.array([[4.0, 1.0], [1.0, 3.0]])
POSITIVE = np.abs(X) + 0.5
SMALL = X / 8

STANDARD = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_shapes
broadcast_to can_cast ceil clip complex128 complex64 concat conj copysign cos cosh count_nonzero cumulative_prod
cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye finfo flip float32 float64 floor
floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype
isfinite isin isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis
nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real reciprocal remainder repeat reshape
result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
take_along_axis tan tanh tensordot tile tril triu trunc uint8 unique_all unique_counts unique_inverse unique_values
unstack var vecdot where zeros zeros_like
""".split()  # noqa: SIM905


def test_every_name_of_the_standard_is_there():
    assert [n for n in STANDARD if not hasattr(xp, n)] == []
    assert set(STANDARD) <= {*xp.__all__}


ELEMENTWISE = {
    "acos": (SMALL,), "acosh": (POSITIVE + 1,), "add": (X, X), "asin": (SMALL,), "asinh": (X,), "atan": (X,),
    "atan2": (X, POSITIVE), "atanh": (SMALL,), "bitwise_and": (V, V), "bitwise_invert": (V,), "bitwise_or": (V, V),
    "bitwise_left_shift": (V, V), "bitwise_right_shift": (V, V), "bitwise_xor": (V, V), "ceil": (X,),
    "conj": (X + 1j,), "copysign": (X, -X), "cos": (X,), "cosh": (X,), "divide": (X, POSITIVE), "equal": (X, X),
    "exp": (X,), "expm1": (X,), "floor": (X,), "floor_divide": (X, POSITIVE), "greater": (X, -X),
    "greater_equal": (X, -X), "hypot": (X, X), "imag": (X + 2j,), "isfinite": (X,), "isinf": (X,), "isnan": (X,),
    "less": (X, -X), "less_equal": (X, -X), "log": (POSITIVE,), "log10": (POSITIVE,), "log1p": (POSITIVE,),
    "log2": (POSITIVE,), "logaddexp": (X, X), "logical_and": (X > 0, X > 1), "logical_not": (X > 0,),
    "logical_or": (X > 0, X > 1), "logical_xor": (X > 0, X > 1), "maximum": (X, -X), "minimum": (X, -X),
    "multiply": (X, X), "negative": (X,), "nextafter": (X, -X), "not_equal": (X, -X), "positive": (X,),
    "pow": (POSITIVE, X), "real": (X + 2j,), "reciprocal": (X,), "remainder": (X, POSITIVE), "round": (X,),
    "sign": (X,), "signbit": (X,), "sin": (X,), "sinh": (X,), "sqrt": (POSITIVE,), "square": (X,), "subtract": (X, -X),
    "tan": (X,), "tanh": (X,), "trunc": (X,), "abs": (X,),
}  # fmt: skip
CALLS = {
    **{f"{name}()": (lambda lib, *a, name=name: getattr(lib, name)(*a), *args) for name, args in ELEMENTWISE.items()},
    "round halves": (lambda lib, a: lib.round(a), np.array([0.5, 1.5, -2.5])),
    "round complex": (lambda lib, a: lib.round(a), X * (1 + 1j)),
    "sign complex": (lambda lib, a: lib.sign(a), X * (1 + 1j)),
    "sign nan": (lambda lib, a: lib.sign(a), np.array([np.nan, -1.0])),
    "clip": (lambda lib, a: lib.clip(a, -1.0, 2.0), X),
    "sum": (lambda lib, a: lib.sum(a, axis=1, keepdims=True), X),
    "sum of ints": (lambda lib, a: lib.sum(a), V),
    "prod": (lambda lib, a: lib.prod(a, axis=(0, 1)), X),
    "max": (lambda lib, a: lib.max(a, axis=0), X),
    "min": (lambda lib, a: lib.min(a), X),
    "mean": (lambda lib, a: lib.mean(a, axis=(0, 1)), X),
    "var": (lambda lib, a: lib.var(a, axis=1, correction=1), X),
    "std": (lambda lib, a: lib.std(a), X),
    "all": (lambda lib, a: lib.all(a, axis=0), X > 0),
    "any": (lambda lib, a: lib.any(a), X > 0),
    "argmax": (lambda lib, a: lib.argmax(a, axis=1, keepdims=True), X),
    "argmin": (lambda lib, a: lib.argmin(a), X),
    "count_nonzero": (lambda lib, a: lib.count_nonzero(a, axis=1), X > 0),
    "cumulative_sum": (lambda lib, a: lib.cumulative_sum(a, axis=1, include_initial=True), X),
    "cumulative_prod": (lambda lib, a: lib.cumulative_prod(a), V),
    "diff": (lambda lib, a: lib.diff(a, axis=1, n=1), X),
    "isin": (lambda lib, a: lib.isin(a, a[:2], invert=True), V),
    "sort": (lambda lib, a: lib.sort(a, axis=0, descending=False) if lib is xp else lib.sort(a, axis=0), X),
    "argsort": (lambda lib, a: lib.argsort(a, axis=1), X),
    "searchsorted": (lambda lib, a: lib.searchsorted(lib.sort(a), a, side="right"), V),
    "unique_values": (lambda lib, a: lib.sort(lib.unique_values(a)), V),
    "unique_all": (lambda lib, a: tuple(lib.unique_all(a)), V),
    "unique_counts": (lambda lib, a: tuple(lib.unique_counts(a)), V),
    "unique_inverse": (lambda lib, a: tuple(lib.unique_inverse(a)), V),
    "nonzero": (lambda lib, a: lib.nonzero(a), X > 0),
    "where": (lambda lib, a: lib.where(a > 0, a, 0.0), X),
    "concat": (lambda lib, a: lib.concat((a, a), axis=1), X),
    "concat flat": (lambda lib, a: lib.concat((a, a), axis=None), X),
    "stack": (lambda lib, a: lib.stack((a, a), axis=1), X),
    "unstack": (lambda lib, a: lib.unstack(a, axis=1), X),
    "expand_dims": (lambda lib, a: lib.expand_dims(a, axis=(0, 2)), X),
    "squeeze": (lambda lib, a: lib.squeeze(a, axis=0), X[None]),
    "flip": (lambda lib, a: lib.flip(a), X),
    "roll": (lambda lib, a: lib.roll(a, (1, 1), axis=(0, 1)), X),
    "roll flat": (lambda lib, a: lib.roll(a, 2), X),
    "repeat": (lambda lib, a: lib.repeat(a, 2, axis=0), X),
    "tile": (lambda lib, a: lib.tile(a, (2, 1, 2)), X),
    "permute_dims": (lambda lib, a: lib.permute_dims(a, (1, 0)), X),
    "moveaxis": (lambda lib, a: lib.moveaxis(a, 0, 1), X),
    "reshape": (lambda lib, a: lib.reshape(a, (3, 2)), X),
    "broadcast_to": (lambda lib, a: lib.broadcast_to(a, (4, 2, 3)), X),
    "broadcast_arrays": (lambda lib, a: tuple(lib.broadcast_arrays(a, a[:1])), X),
    "take": (lambda lib, a, i: lib.take(a, i, axis=1), X, np.array([2, 0])),
    "take_along_axis": (lambda lib, a, i: lib.take_along_axis(a, i, axis=1), X, np.array([[2], [-1]])),
    "matmul": (lambda lib, a: lib.matmul(a, lib.matrix_transpose(a)), X),
    "tensordot": (lambda lib, a: lib.tensordot(a, a, axes=((0, 1), (0, 1))), X),
    "vecdot": (lambda lib, a: lib.vecdot(a, a, axis=-1), X + 1j),
    "tril": (lambda lib, a: lib.tril(a, k=-1), X),
    "triu": (lambda lib, a: lib.triu(a), X),
    "arange": (lambda lib: lib.arange(1, 8, 3),),
    "arange behind": (lambda lib: lib.arange(5, 1),),
    "linspace": (lambda lib: lib.linspace(0.0, 1.0, 5, endpoint=False, dtype=lib.float64),),
    "eye": (lambda lib: lib.eye(2, 3, k=1, dtype=lib.float64),),
    "meshgrid": (lambda lib, a: tuple(lib.meshgrid(a, a[:2])), V),
    "full": (lambda lib: lib.full((2,), 3),),
    "astype": (lambda lib, a: lib.astype(a, lib.int32), X),
    "det": (lambda lib, a: lib.linalg.det(a), M),
    "inv": (lambda lib, a: lib.linalg.inv(a), M),
    "solve": (lambda lib, a: lib.linalg.solve(a, a), M),
    "cholesky": (lambda lib, a: lib.linalg.cholesky(a), M),
    "eigh": (lambda lib, a: lib.linalg.eigh(a)[0], M),
    "svdvals": (lambda lib, a: lib.linalg.svdvals(a), X),
    "pinv": (lambda lib, a: lib.linalg.pinv(a), X),
    "matrix_norm": (lambda lib, a: lib.linalg.matrix_norm(a), X),
    "vector_norm": (lambda lib, a: lib.linalg.vector_norm(a, axis=1, keepdims=True), X),
    "matrix_rank": (lambda lib, a: lib.linalg.matrix_rank(a), X),
    "matrix_power": (lambda lib, a: lib.linalg.matrix_power(a, 3), M),
    "slogdet": (lambda lib, a: tuple(lib.linalg.slogdet(a)), M),
    "trace": (lambda lib, a: lib.linalg.trace(a), M),
    "diagonal": (lambda lib, a: lib.linalg.diagonal(a), M),
    "outer": (lambda lib, a: lib.linalg.outer(a, a), V),
    "cross": (lambda lib, a: lib.linalg.cross(a, a[::-1]), X),
    "fft": (lambda lib, a: lib.fft.fft(a, axis=0), X + 0j),
    "rfft": (lambda lib, a: lib.fft.rfft(a, n=4), X),
    "irfft": (lambda lib, a: lib.fft.irfft(a), X + 0j),
    "fftn": (lambda lib, a: lib.fft.fftn(a), X + 0j),
    "fftshift": (lambda lib, a: lib.fft.fftshift(a, axes=1), X),
    "fftfreq": (lambda lib: lib.fft.fftfreq(5, d=0.5, dtype=lib.float64) if lib is xp else lib.fft.fftfreq(5, d=0.5),),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_as_in_numpy(name):
    call, *arrays = CALLS[name]
    want = call(np, *arrays)
    got = call(xp, *[xp.asarray(a) for a in arrays])
    want, got = (r if isinstance(r, tuple) else (r,) for r in (want, got))
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        assert isinstance(g, jg.Tensor)
        w, g = np.asarray(w), np.asarray(g)
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-14)


def test_tensors_name_their_namespace():
    x = jg.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    assert jg.array_api is xp and xp.__array_api_version__ == "2024.12"
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match=r"1999\.01"):
        x.__array_namespace__(api_version="1999.01")


def test_the_namespace_describes_itself():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64, "indexing": xp.int64,
    }  # fmt: skip
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert info.devices() == [info.default_device()] and info.capabilities()["boolean indexing"]


def test_dtypes():
    assert xp.isdtype(xp.uint8, "unsigned integer") and not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(xp.float64, ("integral", xp.float64))
    assert xp.result_type(xp.int8, xp.ones(1, dtype=xp.float32), 2.0) is xp.float32
    assert xp.result_type(xp.int32, 1) is xp.int32 and xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.can_cast(xp.int8, xp.int32) and not xp.can_cast(xp.float64, xp.float32)
    assert xp.finfo(xp.ones(1)).dtype is xp.float32 and xp.iinfo(xp.int8).dtype is xp.int8
    with pytest.raises(ValueError, match="unknown kind"):
        xp.isdtype(xp.int8, "wide")


def test_copies_are_made_when_asked_for():
    a = np.ones(2)
    shared = xp.asarray(a)
    a[0] = 5
    assert shared[0] == 5 and xp.asarray(a, copy=True).tolist() == [5, 1]
    assert xp.asarray(shared, copy=False) is shared
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray([1.0], copy=False)
    assert xp.astype(shared, xp.float64, copy=False) is shared and xp.astype(shared, xp.float64) is not shared


def test_numpy_arrays_share_a_tensors_memory():
    t = jg.arange(3.0)
    a = np.asarray(t)
    a[0] = 7
    assert t[0] == 7 and np.array(t) is not a
    assert np.asarray(t, copy=True).base is None
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(t, np.int32, copy=False)
    if sys.version_info >= (3, 12):
        assert memoryview(t)[0] == 7


def test_dlpack_shares_memory():
    t = jg.arange(3.0)
    a = np.from_dlpack(t)
    t[1] = 9
    assert a.tolist() == [0, 9, 2] and t.__dlpack_device__() == (1, 0)
    b = np.arange(3.0)
    u = jg.from_dlpack(b)
    b[0] = 4
    assert u.tolist() == [4, 1, 2]
    copied = xp.from_dlpack(b, copy=True)
    b[0] = 6
    assert copied.tolist() == [4, 1, 2]


@pytest.mark.torch
def test_dlpack_with_pytorch():
    torch = pytest.importorskip("torch")
    t = jg.arange(3.0)
    other = torch.from_dlpack(t)
    other[0] = 5
    assert t.tolist() == [5, 1, 2]
    mine = jg.from_dlpack(other)
    mine[1] = 8
    assert other.tolist() == [5, 8, 2]


def test_array_api_compat_takes_tensors():
    compat = pytest.importorskip("array_api_compat")
    x = jg.ones(2, 3)
    assert compat.array_namespace(x, x) is xp and compat.is_array_api_obj(x)
    assert compat.size(x) == 6 and str(compat.device(x)) == "cpu"


def test_gradients_flow_through_the_namespace():
    x = jg.tensor([[3.0, 1.0], [2.0, 4.0]], requires_grad=True)
    xp.sum(xp.max(xp.square(x), axis=0)).backward()
    assert x.grad.tolist() == [[6, 0], [0, 8]]
    f = jg.compile(lambda t: xp.std(xp.exp(t), axis=1))
    assert xp.all(xp.abs(f(x.detach()) - xp.std(xp.exp(x.detach()), axis=1)) < 1e-5)


def standardized(x):
    """A function written for the standard, knowing no library."""
    space = x.__array_namespace__()
    centered = x - space.mean(x, axis=0, keepdims=True)
    scale = space.std(x, axis=0, correction=1, keepdims=True)
    return space.where(scale > 0, centered / scale, space.zeros_like(x))


def test_a_function_written_for_the_standard():
    strict = pytest.importorskip("array_api_strict")
    want = standardized(strict.asarray(X))
    got = standardized(xp.asarray(X))
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12)
