"""Loops in pieces: the interpreter's bits wherever conditions change, and no read outside of what may be read."""

import ctypes
import mmap
import re
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from codegen.kernels import ZERO, I, all_options, compile_with, equal, run_both, sample
from hypothesis import HealthCheck, given, settings

from jitgrad.codegen.cpu import abi, target
from jitgrad.codegen.cpu.emit import emit_kernel
from jitgrad.codegen.cpu.emit_reduction import vector_plan
from jitgrad.codegen.loops.analysis import Dependencies
from jitgrad.codegen.loops.ir import (
    Buffer,
    Init,
    Kernel,
    Loop,
    Store,
    Update,
    acc_ref,
    load,
    loop_var,
    param,
    slot,
)  # fmt: skip
from jitgrad.codegen.loops.pieces import pieces_of
from jitgrad.ir import dtypes, scalar
from jitgrad.ir.scalar import Fn, apply, const, where

F32, F64, I64, BOOL = dtypes.float32, dtypes.float64, dtypes.int64, dtypes.bool_
R = loop_var("r")
NARROW, WIDE = slot(2), slot(3)
OPTIONS = pytest.mark.parametrize("options", all_options(), ids=["host", "narrow", "strict"])


def joined(first, second, at, dtype=F32):
    """`first` in front of `at`, `second` behind; neither read elsewhere."""
    zero = const(0, dtype)
    return where(at > I, load(0, dtype, first, at > I, zero), load(1, dtype, second, at <= I, zero))


def two_inputs(value, dtype=F32, kind="vector"):
    """Rows of `value`, stored one after another."""
    body = (Store(2, I + R * slot(1), value),)
    inner = Loop(I, ZERO, slot(1), body, kind)
    buffers = (Buffer(dtype, "in"), Buffer(dtype, "in"), Buffer(value.dtype, "out"))
    return Kernel(buffers, 4, (value.dtype,), (Loop(R, ZERO, slot(0), (inner,), "parallel"),))


def pieces(kernel):
    (rows,) = kernel.body
    return pieces_of(rows.body[0], Dependencies(frozenset({2})))


def test_a_join_is_one_load():
    found = pieces(two_inputs(joined(I + R, I - NARROW, NARROW)))
    assert len(found.borders) == 1 and not found.constant
    (choice,) = found.choices
    assert choice.total and choice.stride == 1


def test_a_padding_is_one_load_or_a_value():
    inside = (I - NARROW >= 0) & (I - NARROW < WIDE)
    found = pieces(two_inputs(where(inside, load(0, F32, I - NARROW, inside, const(0, F32)), param(0, F32))))
    assert len(found.borders) == 2
    (choice,) = found.choices
    assert not choice.total


def test_elements_of_different_directions_are_two_loads():
    found = pieces(two_inputs(joined(NARROW - I, I - NARROW, NARROW)))
    assert len(found.choices) == 2 and len(found.constant) == 1


def test_what_does_not_change_at_a_place_has_no_pieces():
    for condition in (load(0, F32, I) > 0.0, (I * I) < NARROW, apply(Fn.REM, I, NARROW).eq(0)):
        assert pieces(two_inputs(where(condition, load(0, F32, I), load(1, F32, I)))) is None


def test_between_borders_nothing_is_masked():
    module = target.new_module("pieces")
    emit_kernel(module, "pieces", two_inputs(joined(I + R, I - NARROW, NARROW)), all_options()[0])
    blocks = re.split(r"^(?=[\w.]+:)", str(module), flags=re.M)
    whole = "".join(block for block in blocks if block.startswith("i.whole"))
    assert whole.count("load <") == 1 and whole.count("store <") == 1 and "masked" not in whole


@OPTIONS
@pytest.mark.parametrize("dtype", [F32, F64, I64, BOOL, dtypes.float16, dtypes.int8], ids=str)
@pytest.mark.parametrize("length", [1, 2, 15, 64, 65, 200])
def test_a_roll_of_every_amount(length, dtype, options):
    """out[r, i] = x[r, (i - at) mod length], and the row above where that is another one."""
    for at in {0, 1, length // 2, length - 1, length}:
        value = joined(I + R * slot(1) + WIDE, I + R * slot(1) - NARROW, NARROW, dtype)
        x = sample(dtype, 3 * length, at)
        slots = [3, length, at, length - at]
        arrays = [x, x, np.zeros(3 * length, dtype.np)]
        native, expected = run_both(two_inputs(value, dtype), arrays, slots, [0], options=options)
        assert all(equal(a, b) for a, b in zip(native, expected))


@st.composite
def values(draw):
    """Nested choices between elements of two buffers, numbers, and what is computed of them."""
    number = st.sampled_from([NARROW, WIDE, slot(1) - 1, NARROW + WIDE])
    compare = st.sampled_from(sorted(scalar.COMPARISONS, key=str))
    place = st.sampled_from([I, I - NARROW, WIDE - I, R, R + I])

    def condition():
        first = apply(draw(compare), draw(place), draw(number))
        if draw(st.booleans()):
            return first
        return apply(draw(st.sampled_from([Fn.AND, Fn.OR])), first, apply(draw(compare), draw(number), draw(place)))

    def element():
        buffer, index = draw(st.integers(0, 1)), draw(st.sampled_from([I, I + R, I + NARROW, WIDE - I, NARROW, I * 2]))
        inside = (index >= 0) & (index < 64)
        if draw(st.booleans()):
            inside = inside & condition()
        return load(buffer, F32, index, inside, const(draw(st.sampled_from([0.0, 2.5])), F32))

    def tree(depth):
        match draw(st.integers(0, 5)) if depth else 5:
            case 0:
                return param(0, F32)
            case 1:
                return tree(depth - 1) * tree(depth - 1)
            case 2 | 3 | 4:
                return where(condition(), tree(depth - 1), tree(depth - 1))
        return element()

    return tree(4)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(values(), st.sampled_from([1, 7, 16, 33, 100]), st.integers(-3, 70), st.integers(-3, 70))
def test_random_choices(value, length, narrow, wide):
    arrays = [sample(F32, 64, 1), sample(F32, 64, 2), np.zeros(2 * length, np.float32)]
    kernel = two_inputs(value)
    for options in all_options()[1:]:
        with np.errstate(all="ignore"):
            native, expected = run_both(kernel, arrays, [2, length, narrow, wide], [1.5], options=options)
        assert all(equal(a, b) for a, b in zip(native, expected))


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages by the C library's names")
@OPTIONS
def test_nothing_is_read_outside(options):
    """The inputs lie between pages that may not be read: reading one ends the process."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for place in (start, start + 2 * page):
        assert protect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0) == 0
    inner = np.frombuffer(memory, np.float32)[page // 4 : page // 2]
    inner[:] = np.arange(page // 4)
    rolled = compile_with(two_inputs(joined(I + WIDE, I - NARROW, NARROW)), options)
    inside = (I - NARROW >= 0) & (I - NARROW < WIDE)
    padded = two_inputs(where(inside, load(0, F32, I - NARROW, inside, const(0, F32)), param(0, F32)))
    padded_address = compile_with(padded, options)
    for length in (1, 3, 16, 50, page // 4):
        for at in {0, 1, length - 1, length}:
            for x in (inner[:length], inner[-length:]):
                out = np.zeros(length, np.float32)
                abi.call_kernel(rolled, [x, x, out], [1, length, at, length - at], abi.pack_params((F32,), [0.0]), 0, 1)
                assert np.array_equal(out, np.roll(x, at))
                out = np.zeros(length + 9, np.float32)
                numbers = abi.pack_params((F32,), [2.0])
                abi.call_kernel(padded_address, [x, x, out], [1, length + 9, 4, length], numbers, 0, 1)
                assert np.array_equal(out, np.pad(x, (4, 5), constant_values=2.0))


@OPTIONS
@pytest.mark.parametrize("dtype", [BOOL, dtypes.float16, dtypes.bfloat16], ids=str)
def test_what_is_only_moved_keeps_its_bits(dtype, options):
    """Not a number has many forms; converting one to float32 and back would change some."""
    length = 150
    bits = np.random.default_rng(0).integers(0, 2 if dtype is BOOL else 1 << 16, length)
    x = bits.astype(np.uint8 if dtype is BOOL else np.uint16).view(dtype.np)
    value = joined(I + WIDE, I - NARROW, NARROW, dtype)
    address = compile_with(two_inputs(value, dtype), options)
    for at in (0, 1, 64, length - 1):
        out = np.zeros(length, dtype.np)
        numbers = abi.pack_params((dtype,), [0.0])
        abi.call_kernel(address, [x, x, out], [1, length, at, length - at], numbers, 0, 1)
        assert out.tobytes() == np.roll(x, at).tobytes()


def test_what_is_only_moved_is_as_wide_as_in_memory():
    options = all_options()[0]
    for value, bits in ((load(0, dtypes.bfloat16, I), 16), (load(0, dtypes.bfloat16, I) * 2, 32)):
        kernel = two_inputs(value, dtypes.bfloat16)
        (rows,) = kernel.body
        plan = vector_plan(rows.body[0], kernel, Dependencies(frozenset({2})), options)
        assert plan.lanes == options.vector_bits // bits


@pytest.mark.parametrize("length", [1, 17, 64, 200])
def test_folds_have_the_bits_that_they_have_without_pieces(length, monkeypatch):
    """Sums, and largest elements with their places, of what a roll gives, long enough for a plan without copies."""
    rolled = joined(I + WIDE, I - NARROW, NARROW)
    value = rolled
    for k in range(30):
        value = value * rolled + const(0.5 + k, F32)
    total, best, at = acc_ref(0, F32), acc_ref(1, F32), acc_ref(2, I64)
    better = value > best
    body = (Update((0,), (total + value,)), Update((1, 2), (where(better, value, best), where(better, I, at))))
    inits = (Init(0, const(0.0, F32)), Init(1, const(float("-inf"), F32)), Init(2, const(-1)))
    stores = (Store(2, R, total), Store(3, R, at))
    buffers = (Buffer(F32, "in"), Buffer(F32, "in"), Buffer(F32, "out"), Buffer(I64, "out"))
    inner = Loop(I, ZERO, slot(1), body, "vector")
    kernel = Kernel(buffers, 4, (), (Loop(R, ZERO, slot(0), (*inits, inner, *stores), "parallel"),))
    options = all_options()[0]
    found = []
    for is_in_pieces in (True, False):
        if not is_in_pieces:
            monkeypatch.setattr("jitgrad.codegen.cpu.emit.pieces_of", lambda loop, deps: None)
        address = compile_with(kernel, options)
        for narrow in {0, 1, length // 2, length}:
            x = np.random.default_rng(narrow).uniform(-1, 1, length).astype("f")
            sums, places = np.zeros(1, "f"), np.zeros(1, np.int64)
            abi.call_kernel(address, [x, x, sums, places], [1, length, narrow, length - narrow], None, 0, 1)
            found.append((sums.tobytes(), places[0]))
    assert found[: len(found) // 2] == found[len(found) // 2 :]
