"""`nn.modules.loss`: the bases that scripts derive losses from."""

from ..loss import _Loss, _WeightedLoss

__all__ = ["_Loss", "_WeightedLoss"]
