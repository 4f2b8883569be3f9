"""Files of many kinds as plain tables of named columns: one reader per kind, and the limits they share."""

import csv
import io as memory
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import polars

from fnode.errors import InputError
from fnode.io.matlab import read_arrays_of_mat

LARGEST_FILE = 500_000_000  # bytes; labels and training hold several copies of the numbers in memory
LARGEST_TABLE = 100_000_000  # numbers
HEAD = 65536  # bytes of a text file that show how it is written
DAMAGE = (
    *(polars.exceptions.PolarsError, polars.exceptions.PanicException),
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, NotImplementedError),
    *(OSError, EOFError, RuntimeError, MemoryError, AssertionError),
    *(zipfile.BadZipFile, zlib.error, struct.error),
)
"""What the libraries behind the readers raise when a file is not what its name says."""


def read_table(path: str | Path) -> polars.DataFrame:
    """The columns of a file by name, as they are written there."""
    path = Path(path)
    if not (path.is_file() or (path.is_dir() and path.suffix.lower() in FOLDERS)):
        raise InputError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: need a trajectory file")
    if path.suffix.lower() not in READERS:
        raise InputError(f"{path} is not a known kind of file: the name must end in {', '.join(READERS)}")
    before = path.stat()
    if before.st_size == 0:
        raise InputError(f"{path} is empty: need a header with the names of the columns and a row for each sample")
    if before.st_size > LARGEST_FILE:
        raise InputError(
            f"{path} has {before.st_size / 1e6:.0f} MB, the limit is {LARGEST_FILE / 1e6:.0f} MB: "
            "keep fewer samples or columns, or give parts of it"
        )
    kind = path.suffix[1:].lower()
    try:
        table = READERS[path.suffix.lower()](path)
        after = path.stat()
    except InputError:
        raise
    except DAMAGE as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be read as {kind}: {said}") from None
    if (before.st_size, before.st_mtime_ns, before.st_ino) != (after.st_size, after.st_mtime_ns, after.st_ino):
        raise InputError(f"{path} changed while it was read: wait until it is complete, or give a copy")
    return named(table, str(path))


def named(table: polars.DataFrame, origin: str) -> polars.DataFrame:
    """The table with tidy names, each of them its own; a nameless column that only counts rows is left out."""
    nameless = [name for name in table.columns if not name.strip() or name.startswith("Unnamed:")]
    counters = [
        name for name in nameless if table[name].cast(polars.String).to_list() == list(map(str, range(len(table))))
    ]
    table = table.drop(counters)
    names = [" ".join(name.split()) or f"column{k + 1}" for k, name in enumerate(table.columns)]
    once(names, origin)
    if len(table) * len(names) > LARGEST_TABLE:
        raise InputError(
            f"{origin} has {len(table)} rows of {len(names)} columns, the limit is {LARGEST_TABLE} numbers: "
            "keep fewer samples or columns"
        )
    return table.rename(dict(zip(table.columns, names, strict=True)))


def once(names: Iterable[str], origin: str) -> None:
    """An error if a name appears twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise InputError(f"{origin}: column '{name}' appears twice: every column needs its own name")
        seen.add(name)


def read_text(path: Path) -> polars.DataFrame:
    """A text file with a header: commas, semicolons, tabs, bars or blanks between its cells, `#` before remarks."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    if b"\0" in head:
        raise InputError(f"{path} is not a text file, or not in UTF-8: save it as CSV in UTF-8")
    encoding = "utf-8"
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # not a letter cut in half by the end of the head
            encoding = "latin-1"
        text = head.decode(encoding, errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    remarks = [line for line in lines if line.lstrip().startswith(("#", "%"))]
    rows = [line for line in lines if line not in remarks]
    if not rows:
        raise InputError(f"{path} has no rows: need a header with the names of the columns and a row for each sample")
    delimiter = sniffed(rows[0])
    header, body = cells(rows[0], delimiter), rows[1:]
    if all(map(is_number, header)):
        above = cells(remarks[-1].lstrip("#% \t"), delimiter) if remarks and lines[0] in remarks else []
        if len(above) != len(header):
            raise InputError(
                f"{path} has no header: its first row is {', '.join(header[:4])}{' ...' if len(header) > 4 else ''}; "
                "put a line with the names of the columns above it, such as t,x,d_x"
            )
        header, body = above, rows  # the way numpy.savetxt writes a header
    once([name.strip() for name in header if name.strip()], str(path))
    decimal_comma = delimiter != "," and any(
        re.fullmatch(r"[-+]?\d+,\d+(e[-+]?\d+)?", cell.strip(), re.IGNORECASE)
        for line in body[:20]
        for cell in cells(line, delimiter)
    )
    plain = not remarks and encoding == "utf-8" and delimiter != " " and "\n" in text.replace("\r\n", "\n") + "\n"
    plain = plain and not re.search(r"\r(?!\n)", text) and text.lstrip("\n\r") == text
    if plain:
        return _parsed(path, path, delimiter, decimal_comma)
    # Anything unusual is written anew as plain CSV in memory.
    whole = path.read_text(encoding="utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    kept = [line for line in whole.splitlines() if line.strip() and not line.lstrip().startswith(("#", "%"))]
    kept = kept if body is rows else kept[1:]
    if delimiter == " ":
        kept, delimiter = [",".join(line.split()) for line in kept], ","
    first = memory.StringIO()
    csv.writer(first, delimiter=delimiter, lineterminator="\n").writerow(header)
    return _parsed(path, memory.BytesIO((first.getvalue() + "\n".join(kept)).encode()), delimiter, decimal_comma)


def sniffed(header: str) -> str:
    """The delimiter of a header: the most frequent of the usual ones, blanks when there is none of them."""
    counts = {mark: len(cells(header, mark)) for mark in (",", ";", "\t", "|")}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best] > 1:
        return best
    return " " if len(cells(header, " ")) > 1 else ","


def cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line; those between blanks may be set apart by several."""
    if delimiter == " ":
        return re.findall(r"\S+(?:[ \t]+\[[^\]]*\])?", line)  # a unit belongs to its name
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def is_number(cell: str) -> bool:
    try:
        float(cell.strip().replace(",", "."))
    except ValueError:
        return False
    return True


def _parsed(path: Path, source, delimiter: str, decimal_comma: bool) -> polars.DataFrame:
    """The table of a text; a row with too many cells is named."""
    try:
        return polars.read_csv(source, separator=delimiter, decimal_comma=decimal_comma, infer_schema_length=None)
    except polars.exceptions.ComputeError:
        lines = (
            path.read_text(encoding="utf-8", errors="replace") if source is path else source.getvalue().decode()
        ).splitlines()
        wide = len(cells(lines[0], delimiter)) if lines else 0
        for row, line in enumerate(lines[1:], 1):
            found = len(cells(line, delimiter))
            if found > wide:
                raise InputError(
                    f"{path}: row {row} has {found} cells, the header has {wide}: repair the row"
                ) from None
        raise


def read_parquet(path: Path) -> polars.DataFrame:
    """A Parquet file; its size is known before its numbers are read."""
    lazy = polars.scan_parquet(path)
    rows, width = lazy.select(polars.len()).collect().item(), len(lazy.collect_schema())
    if rows * width > LARGEST_TABLE:
        raise InputError(f"{path} has {rows} rows of {width} columns, the limit is {LARGEST_TABLE} numbers: keep fewer")
    return polars.read_parquet(path)


def read_npz(path: Path) -> polars.DataFrame:
    """The arrays of a NumPy archive; nothing is unpickled."""
    with np.load(path, allow_pickle=False) as arrays:
        if not hasattr(arrays, "files"):
            raise InputError(
                f"{path} holds one array without a name: save named ones with numpy.savez(path, t=..., x=...)"
            )
        return table_of({name: arrays[name] for name in arrays.files}, str(path))


def read_mat(path: Path) -> polars.DataFrame:
    """The arrays of a MATLAB file of version 5 to 7."""
    return table_of(read_arrays_of_mat(path.read_bytes()), str(path))


def read_hdf5(path: Path) -> polars.DataFrame:
    """The datasets of an HDF5 file; where they lie in groups, each group is a trajectory."""
    try:
        import h5py
    except ModuleNotFoundError:
        raise InputError(f"{path}: HDF5 files need h5py: pip install 'fnode[hdf5]'") from None
    with h5py.File(path, "r") as file:
        members = {str(name): file[name] for name in file}
        flat = {name: _dataset(member) for name, member in members.items() if isinstance(member, h5py.Dataset)}
        groups = {} if flat else {name: group for name, group in members.items() if isinstance(group, h5py.Group)}
        return _with_groups(
            path,
            flat,
            {
                name: {str(key): _dataset(group[key]) for key in group if isinstance(group[key], h5py.Dataset)}
                for name, group in groups.items()
            },
        )


def read_zarr(path: Path) -> polars.DataFrame:
    """The arrays of a Zarr folder; where they lie in groups, each group is a trajectory."""
    try:
        import zarr
    except ModuleNotFoundError:
        raise InputError(f"{path}: Zarr folders need zarr: pip install 'fnode[zarr]'") from None
    root = zarr.open_group(path, mode="r")
    flat = {name: _dataset(array) for name, array in root.arrays()}
    groups = {} if flat else dict(root.groups())
    return _with_groups(
        path, flat, {name: {key: _dataset(array) for key, array in group.arrays()} for name, group in groups.items()}
    )


def _with_groups(
    path: Path, flat: Mapping[str, np.ndarray], groups: Mapping[str, Mapping[str, np.ndarray]]
) -> polars.DataFrame:
    """The arrays of a file, or of each of its groups one after the other."""
    if flat:
        return table_of(flat, str(path))
    parts = []
    for name, arrays in groups.items():
        if arrays:
            table = table_of(arrays, f"{path}, group {name}")
            parts.append(
                table.select(polars.lit(name).alias("trajectory"), *table.columns)
                if "trajectory" not in table.columns
                else table
            )
    if not parts:
        raise InputError(
            f"{path} holds no datasets: need t and the coordinates, in the file or in one group for each trajectory"
        )
    if len({tuple(sorted(part.columns)) for part in parts}) > 1:
        raise InputError(f"{path}: its groups hold different datasets: give every group the same names")
    return polars.concat([part.select(parts[0].columns) for part in parts], how="vertical_relaxed")


def _dataset(dataset) -> np.ndarray:
    values = np.asarray(dataset[()])
    if values.dtype.kind in "SO":
        return np.array(
            [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell) for cell in values.ravel()]
        )
    return values


def table_of(arrays: Mapping[str, object], origin: str) -> polars.DataFrame:
    """Named arrays side by side: vectors are columns, matrices are columns NAME1, NAME2 ..., scalars stay constant."""
    given = {str(name): np.asarray(array) for name, array in arrays.items()}
    if not given:
        raise InputError(f"{origin} holds no arrays: need t and the coordinates by name")
    for name, array in given.items():
        if array.ndim > 2 or array.dtype.kind in "cV":
            what = "complex numbers" if array.dtype.kind == "c" else f"shape {array.shape}"
            raise InputError(
                f"{origin}: '{name}' has {what}: need real vectors, or matrices with a row for each sample"
            )
    samples = next((a.size for name, a in given.items() if name.lower() in ("t", "time") and a.size > 1), None)
    if samples is None:
        samples = max((max(a.shape) for a in given.values() if a.ndim and a.size), default=1)
    columns: dict[str, np.ndarray] = {}
    for name, array in given.items():
        if array.ndim == 2 and array.shape[0] != samples and array.shape[1] == samples:
            array = array.T
        if array.ndim == 2 and 1 in array.shape and array.size in (1, samples):
            array = array.ravel()
        if array.size == 1:
            array = np.full(samples, array.ravel()[0])
        if array.shape[:1] != (samples,):
            raise InputError(
                f"{origin}: '{name}' has shape {array.shape}, but there are {samples} samples: need one value for each"
            )
        wide = {name: array} if array.ndim == 1 else {f"{name}{k + 1}": column for k, column in enumerate(array.T)}
        once([*columns, *wide], origin)
        columns |= wide
    if sum(map(np.size, columns.values())) > LARGEST_TABLE:
        raise InputError(f"{origin} holds more than {LARGEST_TABLE} numbers: keep fewer samples or columns")
    return polars.DataFrame({name: _series(values) for name, values in columns.items()})


def _series(values: np.ndarray) -> polars.Series:
    """A column; objects, as pandas keeps texts, become texts unless all are numbers."""
    if values.dtype.kind != "O":
        return polars.Series(np.ascontiguousarray(values))
    present = [None if v is None or (isinstance(v, float) and math.isnan(v)) else v for v in values.tolist()]
    if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in present):
        return polars.Series([None if v is None else float(v) for v in present], dtype=polars.Float64)
    return polars.Series([None if v is None else str(v) for v in present], dtype=polars.String)


READERS: dict[str, Callable[[Path], polars.DataFrame]] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".dat": read_text,
    ".parquet": read_parquet,
    ".npz": read_npz,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".mat": read_mat,
    ".zarr": read_zarr,
}
"""The readers by the end of a file's name."""
FOLDERS = (".zarr",)  # kinds that are a folder, not a file
