"""Type promotion: dtypes and values of operations on every pair of dtypes and ranks are PyTorch's."""

import itertools

import numpy as np
import pytest

import jitgrad as jg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
NUMBERS = (True, 2, 2.5, 1 + 1j)
OPERATIONS = {
    "add": lambda lib, a, b: a + b,
    "sub": lambda lib, a, b: a - b,
    "mul": lambda lib, a, b: a * b,
    "div": lambda lib, a, b: a / b,
    "pow": lambda lib, a, b: a**b,
    "floordiv": lambda lib, a, b: a // b,
    "mod": lambda lib, a, b: a % b,
    "fmod": lambda lib, a, b: lib.fmod(a, b),
    "eq": lambda lib, a, b: a == b,
    "lt": lambda lib, a, b: a < b,
    "and": lambda lib, a, b: a & b,
    "lshift": lambda lib, a, b: a << b,
    "logical_or": lambda lib, a, b: lib.logical_or(a, b),
    "where": lambda lib, a, b: lib.where(lib.tensor([True, False]), a, b),
    "maximum": lambda lib, a, b: lib.maximum(a, b),
    "atan2": lambda lib, a, b: lib.atan2(a, b),
    "result_type": lambda lib, a, b: lib.result_type(a, b),
}
# float16 ** float16 and the like round once here and twice there, or the other way round
LOOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-5}


def operand(lib, spec):
    """A tensor of two elements, a 0-d tensor or a Python number."""
    dtype, rank = spec
    if rank == "number":
        return dtype
    value = [True, True] if dtype == "bool" else [3, 2]
    return lib.tensor(value if rank == 1 else value[0], dtype=getattr(lib, dtype))


def is_complex(spec):
    return isinstance(spec[0], complex) or str(spec[0]).startswith("complex")


def outcome(lib, operation, a, b):
    try:
        return operation(lib, operand(lib, a), operand(lib, b))
    except Exception as error:
        return error


def same(ours, theirs, what):
    if isinstance(theirs, (NotImplementedError, TypeError)):
        return  # jitgrad may do more
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{what}: PyTorch raises {theirs!r}, jitgrad gives {ours!r}"
        return
    assert not isinstance(ours, Exception), f"{what}: PyTorch gives {theirs!r}, jitgrad raises {ours!r}"
    if not hasattr(theirs, "shape"):
        assert str(ours).rpartition(".")[2] == str(theirs).rpartition(".")[2], what
        return
    name = str(theirs.dtype).rpartition(".")[2]
    assert ours.dtype.name == name, f"{what}: {ours.dtype} instead of {theirs.dtype}"
    assert tuple(ours.shape) == tuple(theirs.shape), what
    wide = theirs.to(torch.complex128).numpy()
    np.testing.assert_allclose(
        ours.to(jg.complex128).numpy(), wide, rtol=LOOSE.get(name, 1e-12), err_msg=what, equal_nan=True
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_pairs_of_dtypes_and_ranks(name):
    operation = OPERATIONS[name]
    tensors = list(itertools.product(DTYPES, (0, 1)))
    pairs = [(a, b) for a, b in itertools.product(tensors, tensors) if a[1] or b[1]]
    pairs += [(a, (n, "number")) for a, n in itertools.product(tensors, NUMBERS)]
    pairs += [((n, "number"), a) for a, n in itertools.product(tensors, NUMBERS)]
    for a, b in pairs:
        if {"float16", "bfloat16"} & {a[0], b[0]} and any(is_complex(x) for x in (a, b)):
            continue  # PyTorch has a complex32
        theirs = outcome(torch, operation, a, b)
        ours = outcome(jg, operation, a, b)
        same(ours, theirs, f"{name} of {a} and {b}")


@pytest.mark.parametrize("name", ["exp", "sqrt", "sigmoid", "neg", "abs", "floor", "sign", "isnan", "logical_not",
                                  "bitwise_not", "reciprocal", "erf", "square", "sum", "mean", "prod", "amax", "all",
                                  "argmax", "std", "norm"])  # fmt: skip
def test_dtypes_of_functions(name):
    def operation(lib, a, _):
        return getattr(lib, name)(a)

    for dtype in DTYPES:
        theirs = outcome(torch, operation, (dtype, 1), (dtype, 1))
        ours = outcome(jg, operation, (dtype, 1), (dtype, 1))
        same(ours, theirs, f"{name} of {dtype}")


def test_in_place_keeps_the_dtype_or_raises():
    for a, b in itertools.product(DTYPES, DTYPES):
        results = []
        for lib in (torch, jg):
            try:
                results.append(operand(lib, (a, 1)).add_(operand(lib, (b, 1))))
            except RuntimeError as error:
                results.append(error)
        same(results[1], results[0], f"{a} += {b}")


def test_can_cast_and_promote_types():
    for a, b in itertools.product(DTYPES, DTYPES):
        assert jg.can_cast(getattr(jg, a), getattr(jg, b)) == torch.can_cast(getattr(torch, a), getattr(torch, b))
        expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
        if expected is not torch.complex32:
            assert jg.promote_types(getattr(jg, a), getattr(jg, b)).name == str(expected).rpartition(".")[2]


def test_default_dtype_decides_for_floats():
    try:
        jg.set_default_dtype(jg.float64)
        assert jg.tensor([1.5]).dtype is jg.float64
        assert (jg.tensor([1]) * 1.5).dtype is jg.float64
        assert jg.tensor([1]).exp().dtype is jg.float64
        assert jg.tensor([1j]).dtype is jg.complex128
    finally:
        jg.set_default_dtype(jg.float32)
    with pytest.raises(TypeError):
        jg.set_default_dtype(jg.int64)


def test_limits():
    for name in ("float16", "bfloat16", "float32", "float64"):
        ours, theirs = jg.finfo(getattr(jg, name)), torch.finfo(getattr(torch, name))
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "dtype"):
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
    for name in ("uint8", "int8", "int16", "int32", "int64"):
        ours, theirs = jg.iinfo(getattr(jg, name)), torch.iinfo(getattr(torch, name))
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    with pytest.raises(TypeError):
        jg.finfo(jg.int32)
    with pytest.raises(TypeError):
        jg.iinfo(jg.float32)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_types_are_scaled_by_the_number_itself(name):
    values = np.random.default_rng(0).standard_normal(200).tolist()
    ours, theirs = (lib.tensor(values, dtype=getattr(lib, name)) for lib in (jg, torch))
    for scale in (lambda x: x * 0.1, lambda x: 0.1 * x, lambda x: x / 0.1, lambda x: x + 0.1):
        assert scale(ours).float().tolist() == scale(theirs).float().tolist()
