"""assert_close beside PyTorch's: the same verdicts, exception classes and texts. make_tensor's ranges and layouts."""

import re

import numpy as np
import pytest

import jitgrad as jg

assert_close, make_tensor = jg.testing.assert_close, jg.testing.make_tensor

NAN, INF = float("nan"), float("inf")
CASES = {  # programs in L, the library, which give two values, and options
    "equal": ("L.tensor([1.0, 2.0]), L.tensor([1.0, 2.0])", {}),
    "within float32": ("L.tensor([1.0]), L.tensor([1.0 + 1e-6])", {}),
    "beyond float32": ("L.tensor([[1.0, 2.0, 3.0]] * 2), L.tensor([[1.0, 2.5, 3.0], [1.0, 2.0, 3.5]])", {}),
    "float64": ("L.tensor([1.0], dtype=L.float64), L.tensor([1.0 + 1e-5], dtype=L.float64)", {}),
    "float16": ("L.tensor([1.0, 2.0], dtype=L.float16), L.tensor([1.0, 2.25], dtype=L.float16)", {}),
    "bfloat16 close": ("L.tensor([1.0], dtype=L.bfloat16), L.tensor([1.01], dtype=L.bfloat16)", {}),
    "bfloat16": ("L.tensor([1.0, 4.0], dtype=L.bfloat16), L.tensor([1.5, 4.0], dtype=L.bfloat16)", {}),
    "integers": ("L.tensor([1, 2, 3]), L.tensor([1, 5, 3])", {}),
    "uint8": ("L.tensor([1, 2], dtype=L.uint8), L.tensor([3, 2], dtype=L.uint8)", {}),
    "bool": ("L.tensor([True, False]), L.tensor([True, True])", {}),
    "complex": ("L.tensor([1 + 1j, 2j]), L.tensor([1 + 1j, 3j])", {}),
    "0-d": ("L.tensor(1.0), L.tensor(2.0)", {}),
    "expected zero": ("L.tensor([1.0, 0.5]), L.tensor([1.0, 0.0])", {}),
    "nan": ("L.tensor([float('nan')]), L.tensor([float('nan')])", {}),
    "nan allowed": ("L.tensor([float('nan')]), L.tensor([float('nan')])", {"equal_nan": True}),
    "inf": ("L.tensor([float('inf'), 1.0]), L.tensor([float('inf'), 1.0])", {}),
    "inf and number": ("L.tensor([float('inf')]), L.tensor([1.0])", {}),
    "tolerances": ("L.tensor([1.0]), L.tensor([1.4])", {"rtol": 0.5, "atol": 0}),
    "one tolerance": ("L.tensor([1.0]), L.tensor([1.4])", {"rtol": 0.5}),
    "equality asked": ("L.tensor([1.0]), L.tensor([1.25])", {"rtol": 0, "atol": 0}),
    "shape": ("L.ones(2), L.ones(3)", {}),
    "dtype": ("L.ones(2), L.ones(2, dtype=L.float64)", {}),
    "dtype ignored": ("L.ones(2), L.ones(2, dtype=L.float64)", {"check_dtype": False}),
    "dtype promoted": ("L.ones(2), L.tensor([1, 2])", {"check_dtype": False}),
    "stride": ("L.ones(2, 3), L.ones(3, 2).t()", {"check_stride": True}),
    "stride ignored": ("L.ones(2, 3), L.ones(3, 2).t()", {}),
    "empty": ("L.ones(0, 3), L.ones(0, 3)", {}),
    "numbers": ("1.0, 1.5", {}),
    "number types": ("1, 1.0", {}),
    "number types ignored": ("1, 1.0", {"check_dtype": False}),
    "bools": ("True, False", {}),
    "none": ("None, None", {}),
    "none and number": ("None, 1", {}),
    "sequences": ("[1, [L.ones(1), 2.0]], (1, [L.ones(1), 3.0])", {}),
    "lengths": ("[1, 2], [1]", {}),
    "mappings": ("{'a': 1, 'b': [L.zeros(2)]}, {'a': 1, 'b': [L.ones(2)]}", {}),
    "keys": ("{'a': 1, 'c': 2}, {'a': 1, 'b': 2}", {}),
    "arrays": ("np.ones(2), np.zeros(2)", {}),
    "array and tensor": ("np.ones(2), L.ones(2)", {}),
    "text": ("'a', 'a'", {}),
    "own text": ("1, 2", {"msg": "mine"}),
    "function of the text": ("[1], [2]", {"msg": lambda text: "Argh! " + text}),
    "parameter": ("L.nn.Parameter(L.ones(1)), L.ones(1)", {}),
    "parameter refused": ("L.nn.Parameter(L.ones(1)), L.ones(1)", {"allow_subclasses": False}),
}


def outcome(lib, program, options):
    actual, expected = eval(program, {"L": lib, "np": np})
    try:
        lib.testing.assert_close(actual, expected, **options)
    except Exception as error:
        text = str(error).replace("torch.", "jitgrad.").replace("nn.parameter.Parameter", "Parameter")
        return type(error), re.sub(r"jitgrad\.(tensor|nn\.parameter)\.", "jitgrad.", text)
    return None


@pytest.mark.torch
@pytest.mark.parametrize("name", CASES)
def test_verdicts_and_texts_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    assert outcome(jg, *CASES[name]) == outcome(torch, *CASES[name])


def test_tensors_with_gradients_and_results_of_compiled_functions():
    x = jg.ones(3, requires_grad=True)
    assert_close(jg.compile(lambda t: t * 2)(x), x + 1)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 3 / 3 \(100\.0%\)"):
        assert_close(x * 2, x)


@pytest.mark.parametrize("dtype", [jg.bool, jg.uint8, jg.int8, jg.int64, jg.float16, jg.bfloat16, jg.float32,
                                   jg.float64, jg.complex64], ids=str)  # fmt: skip
def test_make_tensor(dtype):
    t = make_tensor((20, 10), dtype=dtype, device="cpu")
    assert (t.dtype, tuple(t.shape), t.requires_grad) == (dtype, (20, 10), False)
    values = (jg.view_as_real(t) if dtype.is_complex else t).double()
    low, high = {"bool": (0, 1), "int": (0 if dtype is jg.uint8 else -9, 9)}.get(dtype.kind, (-9, 9))
    assert values.min() >= low and values.max() <= high
    assert values.max() - values.min() > 0.8 * (high - low)
    gaps = make_tensor(4, 6, dtype=dtype, device="cpu", noncontiguous=True)
    assert not gaps.is_contiguous() and tuple(gaps.shape) == (4, 6)
    assert (make_tensor(200, dtype=dtype, device="cpu", low=0, high=2, exclude_zero=True) != 0).all()
    if dtype.is_differentiable:
        assert make_tensor(2, dtype=dtype, device="cpu", requires_grad=True).requires_grad
    else:
        with pytest.raises(ValueError, match=r"not supported for boolean and integral dtypes"):
            make_tensor(2, dtype=dtype, device="cpu", requires_grad=True)


def test_make_tensor_within_limits():
    t = make_tensor(100, dtype=jg.float32, device="cpu", low=2, high=3)
    assert t.min() >= 2 and t.max() <= 3
    assert make_tensor(50, dtype=jg.float16, device="cpu", low=-1e9, high=1e9).isfinite().all()
    assert make_tensor(50, dtype=jg.int8, device="cpu", low=-1000, high=1000).dtype is jg.int8
    assert make_tensor((), dtype=jg.float32, device="cpu").shape == ()
    for low, high, text in ((3, 3, "must be less"), (NAN, 1, "cannot be NaN"), (300, 400, "only supports")):
        with pytest.raises(ValueError, match=text):
            make_tensor(2, dtype=jg.uint8, device="cpu", low=low, high=high)
    with pytest.raises(ValueError, match="mutually exclusive"):
        make_tensor(2, dtype=jg.float32, device="cpu", noncontiguous=True, memory_format=jg.contiguous_format)
    with pytest.raises(TypeError, match="not supported by make_tensor"):
        make_tensor(2, dtype=float, device="cpu")
