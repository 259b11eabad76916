"""Which CUDA devices there are, what they are, and which is current."""

from __future__ import annotations

from typing import Any

from jitgrad.ir.errors import ArgumentError, JitgradError

from ..backend import gpus
from ..device import named_device
from ..errors import located
from ..mode import local
from ..tensor import Tensor


def gpu(device: Any = None) -> Any:
    """The device named by a number, a string, a `jitgrad.device` or None (the current one); an error without one."""
    index = None
    if device is not None:
        where = named_device(device)
        if where.type != "cuda":
            raise located(ArgumentError(f"Expected a cuda device, but got: {where}"))
        index = where.index
    try:
        return gpus().gpu(index)
    except JitgradError as error:
        raise located(error) from None


def is_available() -> bool:
    """Whether tensors can live on a CUDA device.

    >>> import jitgrad as jg
    >>> where = jg.device("cuda" if jg.cuda.is_available() else "cpu")
    """
    return device_count() > 0


def device_count() -> int:
    """How many CUDA devices there are; 0 without a driver or without the packages of the extra `cuda13`."""
    return len(gpus().machine.find())


def init() -> None:
    """Start CUDA now, which the first use does otherwise; an error that says why where it can't be."""
    gpu()


def is_initialized() -> bool:
    """Whether CUDA has been started."""
    return bool(gpus().machine.gpus)


def current_device() -> int:
    """The number of this thread's device."""
    return gpu().index  # type: ignore[no-any-return]


def set_device(device: Any) -> None:
    """Make a device this thread's current one, which "cuda" without a number means. A negative number does nothing."""
    if isinstance(device, int) and device < 0:
        return
    index = gpu(device).index
    gpus().set_device(index)
    local.mode.cuda_device = index


class device:
    """A context in which another device is the current one; a negative number, or None, changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else gpu(device).index
        self.prev_idx = -1

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)
        return self

    def __exit__(self, *exc: object) -> None:
        set_device(self.prev_idx)


class device_of(device):
    """A context in which a tensor's device is the current one; on the CPU it changes nothing."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device if obj.device.type == "cuda" else None)


def get_device_properties(device: Any = None) -> Any:
    """Facts of a device: `name`, `major`, `minor`, `total_memory`, `multi_processor_count` and others."""
    return gpu(device).properties


def get_device_name(device: Any = None) -> str:
    """What a device is called."""
    return get_device_properties(device).name  # type: ignore[no-any-return]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device: major and minor."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list[str]:
    """The architectures kernels are made for: those of the devices here, since kernels are made when needed."""
    found = {f"sm_{g.properties.major}{g.properties.minor}" for g in gpus().machine.find()}
    return sorted(found)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether kernels take bfloat16: on every device (they widen it to float32)."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Whether the device has TF32 products, which jitgrad does not use unasked."""
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether copies between two devices go directly: not known to, since they go through the driver."""
    gpu(device), gpu(peer_device)
    return False


def synchronize(device: Any = None) -> None:
    """Wait until everything on a device is done."""
    gpu(device).synchronize()
