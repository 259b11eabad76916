"""Training loops: `Trainer`, what it calls on the way, and what it logs. Loops of one's own need none of it."""

from .callbacks import Best, Callback, EarlyStopping, SaveBest
from .durable import save_durably
from .history import History, Table
from .logs import CSVLog, LossPlot, TensorBoardLog
from .metrics import accuracy, binary_accuracy, confusion_matrix, top_k
from .plots import plot_history
from .progress import ProgressBar
from .random_state import RandomState
from .trainer import Trainer, evaluating

__all__ = [
    "Best", "CSVLog", "Callback", "EarlyStopping", "History", "LossPlot", "ProgressBar", "RandomState", "SaveBest",
    "Table", "TensorBoardLog", "Trainer", "accuracy", "binary_accuracy", "confusion_matrix", "evaluating",
    "plot_history", "save_durably", "top_k",
]  # fmt: skip
