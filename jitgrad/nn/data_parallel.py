"""`DataParallel`, by which scripts share a batch out among devices."""

from __future__ import annotations

from typing import Any

from .module import Module


class DataParallel(Module):
    """`module` as it is, on the one device that its parameters are on; names in its state begin with "module.".

    >>> import jitgrad as jg
    >>> model = jg.nn.DataParallel(jg.nn.Linear(2, 1))
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)
