"""Reports to look at."""

from fnode.report.control import control_page
from fnode.report.differentiation import differentiation
from fnode.report.document import render
from fnode.report.page import page

__all__ = ["control_page", "differentiation", "page", "render"]
