"""uint16, uint32 and uint64: PyTorch's promotion, whose operators are fewer; values as NumPy has them; interchange."""

import numpy as np
import pytest

import jitgrad as jg
from jitgrad import array_api as xp

UNSIGNED = ("uint16", "uint32", "uint64")
BINARY = ("add", "sub", "mul", "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum",
          "minimum", "eq", "lt", "ge")  # fmt: skip
NUMPY_NAMES = {"sub": "subtract", "mul": "multiply", "eq": "equal", "lt": "less", "ge": "greater_equal"}


def values(dtype):
    top = np.iinfo(dtype).max
    return np.array([0, 1, 7, top // 2, top // 2 + 1, top - 1, top], dtype)


@pytest.mark.torch
def test_promotion_is_pytorchs():
    torch = pytest.importorskip("torch")
    names = [d.name for d in jg.ir.dtypes.ALL]
    for a in names:
        for b in names:
            try:
                want = str(torch.promote_types(getattr(torch, a), getattr(torch, b))).partition(".")[2]
            except RuntimeError:
                with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64"):
                    jg.promote_types(getattr(jg, a), getattr(jg, b))
            else:
                assert jg.promote_types(getattr(jg, a), getattr(jg, b)).name == want, (a, b)


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_eager_and_compiled(name, dtype):
    x, y = values(dtype), np.roll(values(dtype), 2) | np.array(1, dtype)
    want = getattr(np, NUMPY_NAMES.get(name, name))(x, y)
    function = getattr(jg, name)
    compiled = jg.compile(lambda a, b: function(a, b))
    for run in (function, compiled, compiled):
        got = run(jg.tensor(x), jg.tensor(y)).numpy()
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_long_vectors_and_reductions(dtype):
    x = np.tile(values(dtype), 3000)
    functions = [
        lambda t: t * 3 + 1, lambda t: (t >> 1).to(jg.float64), lambda t: t.to(jg.float32), lambda t: t.amax(),
        lambda t: t.amin(0), lambda t: t.argmax(), lambda t: t > 5, lambda t: ~t, lambda t: t.to(jg.int64),
        lambda t: t.hash_tensor(), lambda t: t[::2].flip(0), lambda t: jg.where(t > 7, t, t + 1),
        lambda t: t.sort().values, lambda t: t.topk(5).values, lambda t: t.to(jg.bool).sum(),
    ]  # fmt: skip
    for i, f in enumerate(functions):
        compiled, eager = jg.compile(f), f(jg.tensor(x))
        for _ in range(2):
            np.testing.assert_array_equal(compiled(jg.tensor(x)).numpy(), eager.numpy(), str(i))
    assert jg.tensor(x).amax().item() == x.max() and jg.tensor(x).argmax().item() == x.argmax()
    np.testing.assert_array_equal(jg.tensor(x).sort().values.numpy(), np.sort(x))
    assert jg.tensor(x).sum().dtype is jg.int64


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_floats_are_cut(dtype, source):
    top = float(np.iinfo(dtype).max)
    x = np.array([0.0, 0.9, 1.5, 255.99, top / 2, top / 2 * 1.5], source)
    compiled = jg.compile(lambda t: (t + 0).to(getattr(jg, dtype)))
    for run in (lambda t: t.to(getattr(jg, dtype)), compiled, compiled):
        np.testing.assert_array_equal(run(jg.tensor(x)).numpy(), x.astype(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_creation_printing_and_numbers(dtype):
    kind = getattr(jg, dtype)
    top = int(np.iinfo(dtype).max)
    t = jg.tensor([1, top], dtype=kind)
    assert t.tolist() == [1, top] and t[1].item() == top and int(t[1]) == top
    assert repr(jg.tensor([3], dtype=kind)) == f"tensor([3], dtype=jitgrad.{dtype})"
    assert (t + 1).tolist() == [2, 0] and (t + 1).dtype is kind and (t + 0.5).dtype is jg.float32
    assert jg.iinfo(kind).max == top and jg.iinfo(kind).min == 0 and not kind.is_signed
    for made in (
        jg.ones(2, dtype=kind),
        jg.full((2,), 1, dtype=kind),
        jg.zeros_like(t) + 1,
        jg.arange(2, dtype=kind) * 0 + 1,
    ):
        assert made.dtype is kind and made.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Promotion for uint16"):
        t + jg.tensor([1, 2])


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_interchange(dtype, tmp_path):
    x = values(dtype)
    t = jg.from_numpy(x)
    assert t.dtype is getattr(jg, dtype) and t.numpy() is not None and np.shares_memory(t.numpy(), x)
    np.testing.assert_array_equal(np.from_dlpack(t), x)
    np.testing.assert_array_equal(jg.from_dlpack(x).numpy(), x)
    model = jg.nn.Module()
    model.register_buffer("b", t)
    for suffix in (".jg", ".pth"):
        jg.save(model.state_dict(), tmp_path / f"m{suffix}")
        back = jg.load(tmp_path / f"m{suffix}")["b"]
        assert back.dtype is t.dtype
        np.testing.assert_array_equal(back.numpy(), x)
    program = jg.export(lambda v: v * 3, jg.tensor(x))
    np.testing.assert_array_equal(program(t).numpy(), x * np.array(3, dtype))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_files_of_pytorch_both_ways(dtype, tmp_path):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(values(dtype))
    torch.save({"x": x, "half": x[2:5]}, tmp_path / "theirs.pt")
    got = jg.load(tmp_path / "theirs.pt")
    np.testing.assert_array_equal(got["x"].numpy(), x.numpy())
    np.testing.assert_array_equal(got["half"].numpy(), x[2:5].numpy())
    jg.save(got, tmp_path / "ours.pt")
    back = torch.load(tmp_path / "ours.pt")
    assert back["x"].dtype is x.dtype and torch.equal(back["x"], x) and torch.equal(back["half"], x[2:5])


def test_the_standard_promotes_them():
    for a in (*UNSIGNED, "uint8", "int8", "int16", "int32", "int64"):
        for b in (*UNSIGNED, "uint8"):
            want = np.promote_types(a, b)
            x, y = xp.asarray(np.array([1, 2], a)), xp.asarray(np.array([3, 4], b))
            if want.kind == "f":
                continue
            assert xp.result_type(x, y).name == want.name == xp.add(x, y).dtype.name, (a, b)
            assert xp.less(x, y).tolist() == [True, True]
            assert xp.concat([x, y]).dtype.name == want.name
    assert xp.sum(xp.asarray(np.array([1, 2], np.uint16))).dtype is xp.uint64
    assert xp.isdtype(xp.uint32, "unsigned integer") and not xp.isdtype(xp.int32, "unsigned integer")
    assert xp.can_cast(xp.uint16, xp.int32) and not xp.can_cast(xp.uint32, xp.int32)


@pytest.mark.parametrize("dtype", [jg.uint8, jg.uint16, jg.uint32, jg.int8], ids=str)
def test_bfloat16_is_cut_as_float32_is(dtype):
    """Below zero too, where libraries have come to differ."""
    x = jg.tensor([-25.0, -1.25, 0.0, 7.75])
    half, want = x.bfloat16(), x.to(jg.int64).to(dtype)
    for got in (half.to(dtype), jg.compile(lambda t: t.to(dtype))(half), jg.tensor(half.numpy(), dtype=dtype)):
        assert got.tolist() == want.tolist()
