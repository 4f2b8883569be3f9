"""The command line."""

from fnode.cli.main import main

__all__ = ["main"]
