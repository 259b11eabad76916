"""The work that is measured, a file per kind. `ROWS` lists it in the table's order."""

from . import pointwise, products, reductions, small, training
from .row import Params, Program, Row, Tools

ROWS: dict[str, Row] = {
    row.name: row for module in (pointwise, reductions, products, training, small) for row in module.ROWS
}

__all__ = ["ROWS", "Params", "Program", "Row", "Tools"]
