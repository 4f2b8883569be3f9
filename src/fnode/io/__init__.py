"""Files: trajectories, arrays, text; the only place that writes to disk."""

from fnode.io.arrays import read_arrays, write_arrays
from fnode.io.atomic import replacing, write_text
from fnode.io.table import read, write, write_labels

__all__ = ["read", "read_arrays", "replacing", "write", "write_arrays", "write_labels", "write_text"]
