"""Whether tensors on a device hold what those on the CPU do."""

import numpy as np

import jitgrad as jg


def same(on_device, on_cpu, rtol=0.0, atol=0.0):
    """Device, shape, dtype and values; to the bit unless told otherwise."""
    assert on_device.device.type == "cuda"
    assert on_device.shape == on_cpu.shape and on_device.dtype is on_cpu.dtype
    ours, theirs = (t.detach().cpu() for t in (on_device, on_cpu))
    if ours.dtype is jg.bfloat16:
        ours, theirs = ours.float(), theirs.float()
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol, atol)


def moved(x):
    """An argument on the device: tensors in containers are copied there, and need gradients if they did."""
    if isinstance(x, jg.Tensor):
        return x.detach().cuda().requires_grad_(x.requires_grad)
    if isinstance(x, (list, tuple)):
        return type(x)(map(moved, x))
    if isinstance(x, dict):
        return {k: moved(v) for k, v in x.items()}
    return x
