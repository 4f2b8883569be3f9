"""Reports to look at."""

from fnode.report.differentiation import differentiation
from fnode.report.page import page

__all__ = ["differentiation", "page"]
