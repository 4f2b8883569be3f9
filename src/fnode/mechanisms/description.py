"""Mechanisms from TOML files."""

import dataclasses
import math
import tomllib
from pathlib import Path

from fnode.errors import InputError, choose
from fnode.mechanisms.bodies import Body
from fnode.mechanisms.forces import FORCES
from fnode.mechanisms.friction import Friction
from fnode.mechanisms.joints import JOINTS
from fnode.mechanisms.mechanism import Mechanism

TABLES = {"body": {"body": Body}, "joint": JOINTS, "force": FORCES, "friction": {"friction": Friction}}
SETTINGS = ("gravity", "independent")


def read_mechanism(path: str | Path) -> Mechanism:
    """The mechanism that a TOML file describes.

    The file lists `[[body]]`, `[[joint]]`, `[[force]]` and `[[friction]]` tables, whose keys are the arguments of the
    classes of this package; joints and forces say their `type`. `gravity` and `independent` stand at the top.
    """
    path = Path(path)
    try:
        return described(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): check the name") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a TOML file: {error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def described(text: str) -> Mechanism:
    """The mechanism that the text of a TOML file describes."""
    try:
        return mechanism_from(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not a TOML file: {error}") from error


def mechanism_from(content: dict) -> Mechanism:
    """The mechanism that the content of a TOML file describes."""
    for key in content:
        choose("key", key, (*TABLES, *SETTINGS))
    parts = {}
    for table, kinds in TABLES.items():
        entries = content.get(table, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise InputError(f"'{table}' must be a list of tables: write [[{table}]] before each")
        parts[table] = tuple(_part(table, kinds, number, entry) for number, entry in enumerate(entries, start=1))
    settings = {}
    if "gravity" in content:
        settings["gravity"] = _read("gravity", content["gravity"], "gravity")
    if "independent" in content:
        settings["independent"] = _names("independent", content["independent"])
    return Mechanism(parts["body"], parts["joint"], parts["force"], parts["friction"], **settings)


def _part(table, kinds, number, entry):
    where = f"{table} '{entry['name']}'" if "name" in entry else f"{table} {number}"
    entry = dict(entry)
    if len(kinds) == 1:
        (build,) = kinds.values()
    else:
        if "type" not in entry:
            raise InputError(f"{where} has no type: choose one of {', '.join(sorted(kinds))}")
        build = kinds[choose(f"type of {where}", entry.pop("type"), kinds)]
    fields = {field.name: field for field in dataclasses.fields(build) if field.init}
    for key in entry:
        choose(f"key in {where}", key, fields)
    if table == "joint":
        entry.setdefault("name", f"joint {number}")
    for name, field in fields.items():
        if field.default is dataclasses.MISSING and name not in entry:
            raise InputError(f"{where} has no '{name}': it needs {', '.join(fields)}")
    return build(**{key: _read(f"'{key}' of {where}", value, key) for key, value in entry.items()})


def _read(what, value, key):
    """A value in the form its key needs."""
    if key in ("name", "joint", "input"):
        if not isinstance(value, str):
            raise InputError(f"{what} must be a name in quotes, got {value}")
        return value
    if key == "bodies":
        names = _names(what, value)
        if len(names) != 2:
            raise InputError(f"{what} must be two names, got {value}")
        return names
    if key == "points":
        if not isinstance(value, list) or len(value) != 2:
            raise InputError(f"{what} must be two points such as [[0, 0], [1, 0]], got {value}")
        return tuple(_numbers(what, point, 2) for point in value)
    if key in LENGTHS:
        numbers = _numbers(what, value, LENGTHS[key])
        if key == "axis" and not any(numbers):
            raise InputError(f"{what} must be a direction, got {value}")
        return numbers
    return _numbers(what, [value], 1)[0]


LENGTHS = {"pose": 3, "rate": 3, "axis": 2}


def _numbers(what, values, count):
    numeric = isinstance(values, list) and all(
        isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values
    )
    if not numeric or len(values) != count:
        wanted = "a finite number" if count == 1 else f"{count} finite numbers"
        raise InputError(f"{what} must be {wanted}, got {values[0] if numeric is False and count == 1 else values}")
    return tuple(float(v) for v in values)


def _names(what, values):
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"{what} must be a list of names in quotes, got {values}")
    return tuple(values)
