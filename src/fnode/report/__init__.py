"""Reports to look at."""

from fnode.report.page import page

__all__ = ["page"]
