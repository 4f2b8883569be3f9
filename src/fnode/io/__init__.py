"""Files: trajectories, arrays, text; the only place that writes to disk."""

from fnode.io.arrays import read_arrays, read_named, write_arrays, write_named
from fnode.io.atomic import replacing, write_text
from fnode.io.cleaning import Gaps, gaps_of
from fnode.io.readers import FOLDERS, READERS, read_table
from fnode.io.roles import Roles, Understood, plain_name, roles_given, toml, understood
from fnode.io.source import Trajectories, is_text, read, read_signal, records
from fnode.io.table import write, write_labels

__all__ = [
    "FOLDERS",
    "READERS",
    "Gaps",
    "Roles",
    "Trajectories",
    "Understood",
    "gaps_of",
    "is_text",
    "plain_name",
    "read",
    "read_arrays",
    "read_named",
    "read_signal",
    "read_table",
    "records",
    "replacing",
    "roles_given",
    "toml",
    "understood",
    "write",
    "write_arrays",
    "write_labels",
    "write_named",
    "write_text",
]
