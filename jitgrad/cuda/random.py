"""Random streams of CUDA devices: one for each, apart from that of the CPU, as in PyTorch.

Seeded alike they give the same bits as the CPU's. Without a device, seeding is remembered for when there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backend import gpus
from ..device import named_device
from ..random import device_generator, seed_devices
from ..tensor import Tensor
from .devices import current_device, device_count, gpu


def _index(device: Any) -> int:
    where = None if device is None else named_device(device)
    return current_device() if where is None or where.index is None else where.index


def manual_seed(seed: int) -> None:
    """Seed the stream of the current device; without one, for when there is one."""
    device_generator(gpus().current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the streams of all devices."""
    seed_devices(int(seed))


def seed() -> None:
    """Seed the stream of the current device with a number that nobody can predict."""
    device_generator(gpus().current_device()).seed()


def seed_all() -> None:
    """Seed the streams of all devices with one number that nobody can predict."""
    seed_devices(device_generator(0).seed())


def initial_seed() -> int:
    """The seed of the current device's stream."""
    return device_generator(gpu().index).initial_seed()


def get_rng_state(device: Any = None) -> Tensor:
    """The state of a device's stream."""
    return device_generator(_index(device)).get_state()


def set_rng_state(new_state: Tensor, device: Any = None) -> None:
    """Set the state of a device's stream."""
    device_generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices' streams."""
    return [device_generator(i).get_state() for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of all devices' streams."""
    for i, state in enumerate(new_states):
        device_generator(i).set_state(state)
