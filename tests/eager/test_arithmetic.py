"""Elementwise functions do what PyTorch's do: values, gradients, dtypes, errors."""

import numpy as np
import pytest
import torch_oracle

import jitgrad as jg

pytestmark = pytest.mark.torch

PROGRAMS = """
x + 1
1 + x
x - n
n - x
2.5 - x
x * v[:4]
x * x.transpose(0, 1).reshape(2, 3, 4)
x / 3
3 / x
n / 7
n // 5
-n // 5
n % 5
x % 0.7
(x * 0 - v[:4].abs()) % 2, (x * 0) % -2
L.signbit((m - m) % 2), L.signbit((-m * 0) % -3), L.signbit(L.remainder(-f, 1)), L.signbit(L.fmod(-f, 1))
-n % 5
7 % (n + 1)
30 // (n + 1)
x % 0.7
n // 0
n % 0
x ** 2
x ** 3
x ** -1
x ** 0
x ** 1
x ** 4
x.abs() ** 0.5
x.abs() ** 2.5
2 ** x
(-2) ** n[0]
n ** 2
n ** 3
n ** -1
n ** 0.5
x.abs() ** x
n ** n.clamp(max=3)
L.pow(2, x)
x.pow(L.tensor(2))
x.float_power(2)
n.float_power(-1)
L.float_power(2, n)
L.add(x, 2, alpha=3)
L.add(n, n, alpha=2)
L.add(n, 1, alpha=1.5)
L.add(mask, mask, alpha=True)
L.add(x, 1, alpha=True)
L.sub(x, x, alpha=0.5)
L.sub(5, x)
L.rsub(x, 2)
L.rsub(x, x, alpha=2)
L.subtract(x, 1)
L.multiply(x, 2)
L.mul(2, x)
L.divide(x, 2)
L.true_divide(n, 2)
L.div(n, 4, rounding_mode="floor")
L.div(-n, 4, rounding_mode="trunc")
L.div(x, 0.3, rounding_mode="floor")
L.div(x, 0.3, rounding_mode="trunc")
L.div(x, 2, rounding_mode="up")
L.remainder(5, n + 1)
L.remainder(x, -0.7)
L.fmod(x, 0.7)
L.copysign(x, x[0]), L.copysign(x, -1.0), L.copysign(n, s), L.copysign(x * 0, x)
L.logit(x), L.logit(x, 0.1), L.logit(n), x.sigmoid().logit(0.3)
(x * 0.1).logit_(1e-6)
L.copysign(1.0, x)
L.fmod(-n, 3)
-x
+x
-mask
-n
abs(x)
~mask
~n
mask & mask
mask | True
n & 5
n | 1
n ^ n
n << 2
n >> 1
2 << n[0, 0]
n @ n
x == x
x != 0
x < 0
x <= n
n >= 3
n > 2.5
0 < x
(x > 0) & (x < 1)
x == None
x == "a"
x < None
x + "a"
x + None
x.add(None)
x + [1]
L.exp(2.0)
mask * 2
mask + mask
mask - mask
mask - 1
mask * 1.5
n.exp()
mask.exp()
n.sqrt()
x.exp()
x.abs().log()
x.tanh()
x.sigmoid()
L.sin(x)
x.reciprocal()
n.reciprocal()
x.rsqrt()
x.abs().rsqrt()
x.sign()
mask.sign()
x.square()
n.square()
x.floor()
x.ceil()
x.trunc()
x.fix()
x.round()
(x * 100).round(decimals=1)
(x * 1000).round(decimals=-2)
n.round()
n.floor()
x.negative()
x.absolute()
x.clamp(-0.5, 0.5)
x.clamp(min=0)
x.clamp(max=0)
x.clamp(0.5, -0.5)
x.clamp()
x.clip(0, 1)
n.clamp(2, 7)
n.clamp(0.5, 3)
x.clamp(min=x.detach() * 2, max=L.tensor(0.3, dtype=L.float64))
x.clamp_min(0.1)
x.clamp_max(0.1)
L.tensor([float("nan"), 1.0]).clamp(0, 0.5)
L.tensor([2.0, 1.0]).clamp(L.tensor([float("nan"), 1.5]))
L.maximum(x, x.roll(1, 0))
L.minimum(x, L.zeros_like(x))
L.maximum(n, 3 * n - 10)
L.fmax(L.tensor([1.0, float("nan")]), L.tensor([2.0, 3.0]))
L.fmin(L.tensor([1.0, float("nan")]), L.tensor([2.0, 3.0]))
L.atan2(x, x + 1)
L.hypot(x, x + 1)
L.where(x > 0, x, 0)
L.where(x > 0, x, -x)
L.where(mask.reshape(2, 3, 1), x, n)
L.where(mask, 1, 2)
L.where(mask, 1.0, 2)
L.where(x, x, x)
L.where(mask)
x.where(x > 0, L.zeros((), dtype=L.float64))
x.masked_fill(x > 0, -1)
x.masked_fill(mask.unsqueeze(-1), 0.5)
x.masked_fill(mask.unsqueeze(-1), s)
x.masked_fill(mask.unsqueeze(-1), v)
n.masked_fill(n > 5, 0)
x.lerp(x * 2, 0.3)
x.lerp(x * 2, x)
L.lerp(v, v + 1, s)
L.addcmul(x, x, x, value=0.5)
L.addcmul(v, v, s)
L.addcdiv(x, x, x.abs() + 1, value=-2)
L.addcdiv(n, n, n)
L.isclose(x, x + 1e-9)
L.isclose(n, n)
L.isclose(x, n)
L.allclose(x, x + 1e-9)
L.allclose(x, x + 1)
L.allclose(L.tensor([float("nan")]), L.tensor([float("nan")]), equal_nan=True)
L.isclose(L.tensor([float("inf"), 1.0]), L.tensor([float("inf"), float("inf")]))
L.equal(n, n)
L.equal(n, n[0])
L.equal(n, n + 1)
L.nan_to_num(L.tensor([float("nan"), float("inf"), -float("inf"), 1.0]))
L.nan_to_num(L.tensor([float("nan"), float("inf")]), nan=3.0, posinf=1.0)
L.logical_and(x, n)
L.logical_xor(mask, mask)
L.logical_not(n)
x.logical_or(x)
L.bitwise_and(n, 3)
L.bitwise_left_shift(n, 1)
L.isnan(x)
L.isinf(n)
L.isfinite(x)
L.isreal(x)
L.isposinf(L.tensor([float("inf"), 1.0]))
L.isneginf(L.tensor([-float("inf"), 1.0]))
L.logaddexp(x, x + 1)
L.logaddexp2(x, x + 1)
L.xlogy(x.abs(), x.abs() + 1)
L.xlogy(L.tensor([0.0, 1.0]), L.tensor([0.0, 2.0]))
L.heaviside(x.detach(), L.tensor(0.5, dtype=L.float64))
L.copysign(x, -1.0)
L.deg2rad(x)
L.rad2deg(x)
x.frac()
L.logit(x.sigmoid())
L.logit(L.tensor([0.0, 0.3]), eps=1e-3)
L.sinc(x)
L.real(L.complex(x, x * 2))
L.imag(L.complex(x, x * 2))
L.polar(x.abs(), x).real
L.angle(x.detach())
L.angle(L.complex(x.detach(), x.detach()))
x.detach() // 0.7
0.3 // x.detach()
x.detach().sgn()
L.signbit(x)
L.ldexp(x, n)
L.positive(x)
L.threshold(x, 0.1, 20.0)
L.fill(x, 3.0)
x + L.zeros(3, 3)
L.add(x, v)
L.exp(x, out=L.empty(2, 3, 4, dtype=L.float64))
L.add(n, n, out=L.empty(2, 3, 4))
L.add(n, 0.5, out=L.zeros(2, 3, 4, dtype=L.int64))
x.detach().exp_()
n.clone().add_(1)
n.clone().add_(1.5)
n.clone().mul_(L.tensor(2.0))
f.clone().add_(x.detach()[0])
f.clone().add_(L.ones(2, 3, 4))
f.clone().sub_(1, alpha=2)
f.clone().div_(2).pow_(2).clamp_(0, 3).sqrt_()
f.clone().masked_fill_(f > 3, 0)
f.clone().eq_(3)
n.clone().floor_divide_(4)
n.clone().bitwise_and_(6)
n.clone().div_(2)
x.add_(1)
y = x * 1; y += 1; y
y = x * 1; y *= x; y
y = n.clone(); y -= 2; y //= 3; y %= 4; y
y = n.clone(); y /= 2; y
y = n.clone(); y <<= 1; y |= 1; y ^= 3; y &= 7; y
y = f.clone(); y **= 2; y
x * np.float64(2)
np.float64(2) * x
np.float32(2) * f
n * np.int64(3)
"""
# PyTorch gives float64 arrays or errors here; jitgrad takes arrays as tensors.
BEYOND = """
f + np.ones(4, np.float32)
np.ones(4) * f
np.exp(f)
np.add(f, 1)
np.ones(4) == f
"""


@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    torch_oracle.check(program)


@pytest.mark.parametrize("program", BEYOND.strip().splitlines())
def test_numpy_operands(program):
    result = torch_oracle.run(jg, program)
    assert not isinstance(result, Exception), result


def test_numpy_function_without_a_counterpart_gives_an_array():
    result = np.cbrt(jg.tensor([8.0]))
    assert type(result) is np.ndarray and result[0] == 2


def test_a_failed_in_place_call_changes_nothing():
    x = jg.ones(2)
    with pytest.raises(RuntimeError):
        x.add_(jg.ones(3))
    assert x.tolist() == [1.0, 1.0] and x._version == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [2, 40000])
def test_no_numpy_warning_reaches_the_user(size):
    x = jg.zeros(size)
    assert (1 / x)[0].item() == float("inf")
    assert (x / 0)[0].isnan().item()
    assert x.log()[0].item() == -float("inf")
    assert (jg.full((size,), 1e38) * 1e38)[0].item() == float("inf")
    assert (jg.full((size,), 3e38).sum() + jg.full((size,), 3e38).sum()).item() == float("inf")
    assert jg.tensor([1e300], dtype=jg.float64).to(jg.float32).item() == float("inf")


def test_errors_name_the_operands_and_the_line():
    with pytest.raises(RuntimeError, match=r"f32\[2,3\] .* f32\[4\][\s\S]*test_arithmetic.py:\d+"):
        jg.ones(2, 3) + jg.ones(4)


@pytest.mark.parametrize("limits", [(0, 1), (0.0, None), (None, 0.0), (2, -2), (-1e30, 5)])
def test_clamping_keeps_nan_and_signs_of_zeros_recorded_or_not(limits):
    x = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1, 2, -3], "f4")
    recorded = jg.tensor(x, requires_grad=True).clamp(*limits).detach()
    assert jg.tensor(x).clamp(*limits).numpy().tobytes() == recorded.numpy().tobytes()
