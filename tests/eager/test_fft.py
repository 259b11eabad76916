"""`jitgrad.fft`, `stft`, `istft` and windows are PyTorch's: values, gradients, dtypes, errors."""

import itertools

import numpy as np
import pytest
import torch_oracle

import jitgrad as jg

PROGRAMS = """
L.view_as_real(L.fft.fft(x))
L.view_as_real(L.fft.fft(x, 6, 1, "ortho"))
L.view_as_real(L.fft.ifft(x, n=2).resolve_conj())
L.view_as_real(L.fft.rfft(x, dim=0))
L.view_as_real(L.fft.rfft(v, norm="forward"))
L.fft.irfft(x)
L.fft.irfft(x, 5, 1)
L.fft.hfft(x, norm="ortho")
L.view_as_real(L.fft.ihfft(x, 3).resolve_conj())
L.view_as_real(L.fft.fft2(x))
L.view_as_real(L.fft.fft2(x, s=(2, -1), dim=(0, 2)))
L.view_as_real(L.fft.ifft2(x, norm="backward"))
L.view_as_real(L.fft.fftn(x))
L.view_as_real(L.fft.fftn(x, s=(2, 5)))
L.view_as_real(L.fft.ifftn(x, dim=(1, 0)))
L.view_as_real(L.fft.fftn(s))
L.view_as_real(L.fft.rfft2(x, norm="ortho"))
L.view_as_real(L.fft.rfftn(x, dim=(2, 0)))
L.fft.irfft2(x)
L.fft.irfftn(x, s=(3, 5), dim=(0, 1))
L.fft.hfft2(x)
L.fft.hfftn(x, dim=(1, 2), norm="forward")
L.view_as_real(L.fft.ihfft2(x).resolve_conj())
L.view_as_real(L.fft.ihfftn(x).resolve_conj())
L.view_as_real(L.fft.fft(x, axis=1))
L.view_as_real(L.fft.fft(f))
L.view_as_real(L.fft.fft(f.to(L.complex128)))
L.view_as_real(L.fft.fft(L.tensor([True, False])))
L.fft.fft(f.half())
L.fft.fft(s)
L.fft.fft(x, dim=3)
L.fft.fft(x, n=0)
L.fft.fft(x, norm="other")
L.fft.rfft(f.to(L.complex64))
L.fft.ihfftn(f.to(L.complex64))
L.fft.fftn(x, dim=(1, 1))
L.fft.fftn(x, s=(2,), dim=(0, 1))
L.fft.fftn(x, s=(2, 2, 2, 2))
L.fft.rfftn(x, dim=())
L.fft.irfft(L.ones(1))
L.fft.fftfreq(5)
L.fft.fftfreq(6, 0.5, dtype=L.float64)
L.fft.rfftfreq(5)
L.fft.rfftfreq(6, d=2.0)
L.fft.fftshift(x)
L.fft.fftshift(x, 1)
L.fft.ifftshift(x, dim=(0, 2))
L.fft.ifftshift(v)
L.fft.fftshift(s)
L.view_as_real(L.fft.fft(x.detach(), out=L.empty(0, dtype=L.complex128)))
L.stft(v.repeat(4), 8, return_complex=False)
L.view_as_real(L.stft(v.repeat(4), 8, 3, 6, L.hann_window(6, dtype=L.float64), return_complex=True))
L.view_as_real(L.stft(x[0].repeat(1, 3), 6, center=False, normalized=True, onesided=False, return_complex=True))
L.view_as_real(L.stft(v.repeat(4), 8, pad_mode="constant", return_complex=True))
L.view_as_real(L.stft(v.repeat(4) * 1j, 8, return_complex=True))
L.stft(v.repeat(4), 8)
L.stft(v, 8, center=False, return_complex=True)
L.stft(v.repeat(4), 8, 0, return_complex=True)
L.stft(v.repeat(4), 8, win_length=9, return_complex=True)
L.stft(v.repeat(4), 8, window=L.ones(7), return_complex=True)
L.stft(x.unsqueeze(0), 2, center=False, return_complex=True)
L.stft(v.repeat(4) * 1j, 8, onesided=True, return_complex=True)
L.istft(L.stft(v.repeat(4), 8, return_complex=True), 8)
L.istft(L.stft(v.repeat(4), 8, return_complex=True), 8, length=18)
h = L.hann_window(8, dtype=L.float64); L.istft(L.stft(v.repeat(4), 8, 2, 8, h, return_complex=True), 8, 2, 8, h)
z = L.stft(x[0].repeat(1, 4), 8, onesided=False, normalized=True, return_complex=True); L.istft(z, 8, normalized=True)
L.istft(v, 8)
L.istft(L.ones(5, 4, dtype=L.complex64), 8, 2, 8, L.zeros(8))
L.istft(L.ones(4, 4, dtype=L.complex64), 8)
L.istft(L.ones(5, 4, dtype=L.complex64), 8, 9)
v.repeat(4).stft(8, return_complex=True).istft(8)
"""

WINDOWS = ["hann", "hamming", "blackman", "bartlett", "kaiser"]
SIGNAL_WINDOWS = {
    "exponential": ["tau=3.0", "center=1, sym=False"], "cosine": [""], "gaussian": ["std=2.0"], "kaiser": ["beta=5.0"],
    "hamming": [""], "hann": [""], "blackman": [""], "bartlett": [""], "nuttall": [""],
    "general_cosine": ["a=[0.5, 0.3, 0.2]"], "general_hamming": ["alpha=0.6"],
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_same_as_pytorch(program):
    torch_oracle.check(program, rtol=1e-5)


def _window_programs():
    for name, length, periodic in itertools.product(WINDOWS, (0, 1, 2, 7, 8), (True, False)):
        yield f"L.{name}_window({length}, {periodic}, dtype=L.float64)"
    for name, options in SIGNAL_WINDOWS.items():
        for length, extra in itertools.product((0, 1, 2, 7), ["", *options]):
            if "a=" in extra or name != "general_cosine":
                yield f"L.signal.windows.{name}({length}, dtype=L.float64, {extra})"
        yield f"L.signal.windows.{name}(8, sym=False, dtype=L.float64, {options[0].replace(', sym=False', '')})"
    yield from (
        "L.hann_window(-1)", "L.hann_window(3, dtype=L.int64)", "L.hamming_window(5, True, 0.6, 0.4)",
        "L.kaiser_window(5, beta=3.0, periodic=False)", "L.signal.windows.hann(-1)",
        "L.signal.windows.hann(3, dtype=L.float16)", "L.signal.windows.gaussian(3, std=-1)",
        "L.signal.windows.kaiser(3, beta=-1)", "L.signal.windows.exponential(3, tau=0)",
        "L.signal.windows.general_cosine(3, a=[])", "L.signal.windows.hann(4, requires_grad=True)",
    )  # fmt: skip


@pytest.mark.torch
def test_windows_are_pytorchs():
    for program in _window_programs():
        try:
            torch_oracle.check(program, rtol=1e-5)
        except BaseException as error:
            error.add_note(f"in {program}")
            raise


def test_single_precision_stays_single():
    assert jg.fft.fft(jg.ones(4)).dtype is jg.complex64 and jg.fft.irfft(jg.ones(4)).dtype is jg.float32


def test_large_transforms_are_right():
    x = np.random.default_rng(0).standard_normal((64, 2048)).astype(np.float32)
    np.testing.assert_allclose(jg.fft.fft(jg.from_numpy(x)).numpy(), np.fft.fft(x.astype(np.float64)), atol=2e-4)


def test_compiled_equals_eager():
    def f(x):
        spectrum = jg.stft(x, 16, window=jg.hann_window(16), return_complex=True)
        return jg.istft(spectrum * 2, 16, window=jg.hann_window(16)), spectrum.abs().sum()

    x = jg.linspace(0, 3, 64).sin().requires_grad_()
    compiled = jg.compile(f)
    for _ in range(2):
        (y, total), (want, want_total) = compiled(x), f(x)
        assert jg.allclose(y, want, atol=1e-6) and jg.allclose(total, want_total)
        assert jg.allclose(jg.autograd.grad(total, x)[0], jg.autograd.grad(want_total, x)[0], atol=1e-5)
