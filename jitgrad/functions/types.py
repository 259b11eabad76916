"""Functions about dtypes: promotion rules, the default dtype."""

from __future__ import annotations

from .. import promotion
from .registry import public

for _function in (
    promotion.can_cast,
    promotion.get_default_dtype,
    promotion.promote_types,
    promotion.result_type,
    promotion.set_default_dtype,
):
    public(method=False)(_function)
