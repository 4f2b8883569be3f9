"""Turning trajectories into derivatives, one method per file."""

from fnode.derivatives._base import AbstractDerivative, Derivative
from fnode.derivatives.difference import Difference
from fnode.errors import choose

DERIVATIVES: dict[str, AbstractDerivative] = {
    "difference3": Difference(order=2, end_order=1),
    "difference3_second_order_ends": Difference(order=2, end_order=2),
    "difference5": Difference(order=4, end_order=4),
}


def derivative_named(name: str) -> AbstractDerivative:
    """The differentiator with this name, or an error that lists the names there are."""
    return DERIVATIVES[choose("derivative", name, DERIVATIVES)]


__all__ = ["DERIVATIVES", "AbstractDerivative", "Derivative", "Difference", "derivative_named"]
