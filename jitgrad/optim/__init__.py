"""Optimizers and learning-rate schedules. Names and meanings are `torch.optim`'s."""

from . import lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .adam_variants import Adamax, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop
from .averaging import ASGD, Rprop
from .lbfgs import LBFGS
from .matrix_wise import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import SGD
from .sparse import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
