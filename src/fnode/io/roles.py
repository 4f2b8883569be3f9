"""What the columns of a table are: times, coordinates, velocities, inputs, parameters, the split.

A header says it by its names, a user by `Roles`; what neither says is an error that shows what to write.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fnode.errors import InputError
from fnode.trajectory import Column, Columns

TIMES = ("t", "time", "times", "timestamp", "seconds")
TRAJECTORIES = ("trajectory", "traj", "run", "segment", "episode", "trial", "experiment", "recording")
SPLITS = ("split", "subset", "dataset")
ANGLES = ("theta", "phi", "psi", "angle", "yaw", "pitch", "roll", "heading")
PLACES = ("q", "x", "y", "z", "position", "pos", "displacement")
INPUTS = (
    "u",
    "input",
    "control",
    "force",
    "torque",
    "f",
    "tau",
    "voltage",
    "current",
    "throttle",
    "steering",
    "action",
)
DEGREES = ("deg", "degree", "degrees", "°")
SPEEDS = {  # a coordinate's base name -> base names of its velocity, besides those made from the name itself
    **dict.fromkeys(ANGLES, ("omega", "w", "angular_velocity", "angular_rate")),
    "q": ("v", "qd"),
    **dict.fromkeys(("x", "position", "pos", "displacement"), ("v", "velocity", "vel", "speed")),
}


@dataclasses.dataclass(frozen=True)
class Roles:
    """What a user says of the columns; what is None is found in the header.

    An empty tuple of `velocities` means that positions are all there is, an empty `split` that no column tells it.
    `units` are given by column.
    """

    time: str | None = None
    trajectory: str | None = None
    split: str | None = None
    coordinates: tuple[str, ...] | None = None
    velocities: tuple[str, ...] | None = None
    inputs: tuple[str, ...] | None = None
    parameters: tuple[str, ...] | None = None
    angles: tuple[str, ...] | None = None
    units: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "Roles":
        """Roles from plain values, such as keyword arguments or a table of TOML; a single name is a list of one."""
        known = {field.name for field in dataclasses.fields(cls)}
        wrong = sorted(set(values) - known)
        if wrong:
            raise InputError(f"unknown role '{wrong[0]}': choose among {', '.join(sorted(known))}")
        single = ("time", "trajectory", "split", "units")
        return cls(**{name: v if name in single or v is None else _names(v) for name, v in values.items()})  # pyright: ignore


@dataclasses.dataclass(frozen=True)
class Understood:
    """The roles of a table's columns: what they mean, and the names that the file has for them.

    `sources` gives, for each name of `columns`, the column of the file. Without `measured` velocities the file has
    positions only.
    """

    time: str
    columns: Columns
    sources: Mapping[str, str]
    trajectory: str | None = None
    split: str | None = None
    measured: bool = True
    ignored: tuple[str, ...] = ()

    def as_values(self) -> dict[str, object]:
        """The roles as plain values: those of a `[data]` table, with the names of the file."""
        columns = self.columns
        return {
            "time": self.time,
            "trajectory": self.trajectory,
            "split": self.split,
            "coordinates": [self.sources[column.name] for column in columns.coordinates],
            "velocities": [self.sources[column.name] for column in columns.velocities] if self.measured else [],
            "inputs": [self.sources[column.name] for column in columns.inputs],
            "parameters": [self.sources[column.name] for column in columns.parameters],
            "angles": [self.sources[column.name] for column in columns.coordinates if column.angle],
            "units": {column.name: column.unit for column in (*columns.coordinates, *columns.external) if column.unit},
        }

    def lines(self) -> list[str]:
        """One line for each role, to be shown before anything is done with the data."""
        columns = self.columns

        def shown(column: Column) -> str:
            unit = f" [{column.unit}]" if column.unit else ""
            return f"{column.name}{unit}{' (angle)' if column.angle else ''}"

        speeds = ", ".join(
            column.name if self.sources[column.name] == column.name else f"{column.name} = {self.sources[column.name]}"
            for column in columns.velocities
            if self.measured
        )
        found = {
            "time": self.time,
            "trajectory": self.trajectory or "-",
            "split": self.split or "-",
            "coordinates": ", ".join(map(shown, columns.coordinates)),
            "velocities": speeds if self.measured else "not measured: estimated from the positions",
            "inputs": ", ".join(map(shown, columns.inputs)) or "-",
            "parameters": ", ".join(map(shown, columns.parameters)) or "-",
        }
        if self.ignored:
            found["ignored"] = ", ".join(self.ignored)
        return [f"{name + ':':<13}{text}" for name, text in found.items()]


def roles_given(roles: Roles) -> dict[str, Any]:
    """The roles that are said, as the keywords of `read`."""
    return {f.name: value for f in dataclasses.fields(roles) if (value := getattr(roles, f.name)) not in (None, {})}


def plain_name(name: str) -> str:
    """A name without the marks that files differ in: `x_1`, `X1` and `x1` are one."""
    return _fold(name).replace("_", "")


def toml(values: Mapping[str, object]) -> str:
    """The roles as one line of TOML: the table `data` of a configuration file."""
    given = {name: value for name, value in values.items() if value is not None and value not in ((), [], {})}
    return "data = { " + ", ".join(f"{name} = {_toml(value)}" for name, value in given.items()) + " }"


def understood(
    header: Sequence[str],
    roles: Roles,
    origin: str,
    *,
    texts: Iterable[str] = (),
    timeless: bool = False,
    known: Sequence[Column] = (),
) -> Understood:
    """What the header and the user's roles say together; `texts` are the columns that hold no numbers.

    With `timeless` a table without times is taken too: its time is then an empty name. `known` are coordinates that
    the table may have.
    """
    table = _Header(header, origin, known)
    time = table.one("time", roles.time, TIMES)
    trajectory = table.one("trajectory", roles.trajectory, TRAJECTORIES)
    split = table.one("split", roles.split, SPLITS)
    if time is None and not timeless:
        raise InputError(
            f"{origin}: need a column 't' of times; found {_listed(header)}; "
            f"name it with --set time=NAME or in a TOML file: {toml({'time': 'NAME'})}"
        )
    inputs = None if roles.inputs is None else [table.find(name, "input") for name in roles.inputs]
    parameters = [table.find(name, "parameter") for name in roles.parameters or ()]
    taken = {time, trajectory, split, *parameters, *(inputs or ())}
    for given, conventions in ((roles.time, TIMES), (roles.trajectory, TRAJECTORIES), (roles.split, SPLITS)):
        if given is not None:  # other columns that look like it are not meant
            taken |= {name for name in header if table.base[name].lower() in conventions}
    free = [name for name in header if name not in taken and name not in set(texts)]
    pairs = _pairs(table, roles, free, origin)
    measured = all(pairs.values())
    used = {*pairs, *(speed for speed in pairs.values() if speed)}
    left = [
        name for name in free if name not in used and not _is_made(table.base[name], [table.base[q] for q in pairs])
    ]
    product = measured and any(
        _fold(table.base[speed]) == f"d_{_fold(table.base[q])}" for q, speed in pairs.items() if speed
    )
    if inputs is None:
        strong = [name for name in left if table.is_place(name)]
        inputs = [name for name in left if (product and name not in strong) or _stem(table.base[name]) in INPUTS]
    left = [name for name in left if name not in inputs]
    said = roles.coordinates is not None or roles.inputs is not None
    result = Understood(
        time or "",
        _columns(table, roles, list(pairs), inputs, parameters, origin),
        _sources(table, pairs, [*inputs, *parameters]),
        trajectory,
        split,
        measured,
        tuple(name for name in header if name not in {time, trajectory, split, *used, *inputs, *parameters}),
    )
    if left and not said:
        guess = result.as_values()
        guess["inputs"] = [*result.as_values()["inputs"], *left]  # pyright: ignore
        raise InputError(
            f"{origin}: cannot tell what {_listed([repr(name) for name in left])} {'is' if len(left) == 1 else 'are'} "
            "(inputs, coordinates, parameters, the trajectory?); say it with --set, such as "
            f"--set inputs={left[0]!r}, or in a TOML file for `fnode learn --config`, for example: {toml(guess)}"
        )
    return result


def understood_as(
    columns: Columns, header: Sequence[str], roles: Roles, origin: str, *, timeless: bool = False
) -> Understood:
    """Where a table has the columns that are expected; velocities may be missing, all of them."""
    table = _Header(header, origin)
    time = table.one("time", table.if_there(roles.time), TIMES)
    named = dict(zip(roles.coordinates or (), roles.velocities or (), strict=False))
    needed = ["t", *(column.name for column in (*columns.state, *columns.external))]

    def found(name: str) -> str | None:
        return next((raw for raw in header if name in (raw, table.base[raw])), None)

    def missing(name: str) -> InputError:
        return InputError(
            f"{origin}: no column '{name}' (found {_listed(header)}); columns needed: {', '.join(needed)}"
        )

    if time is None and not timeless:
        raise missing("t")
    sources = {}
    for column in (*columns.coordinates, *columns.external):
        source = found(column.name)
        if source is None:
            raise missing(column.name)
        sources[column.name] = source
    for coordinate, speed in zip(columns.coordinates, columns.velocities, strict=False):
        source = found(speed.name) or found(named.get(sources[coordinate.name], named.get(coordinate.name, speed.name)))
        source = source or next(iter(_speeds(table, sources[coordinate.name], header)), None)
        sources[speed.name] = source
    speeds = [sources[column.name] for column in columns.velocities]
    measured = roles.velocities != () and all(speeds)
    if not measured and any(speeds) and roles.velocities != ():
        raise missing(next(column.name for column in columns.velocities if not sources[column.name]))
    kept = {name: source for name, source in sources.items() if source is not None}
    trajectory = table.one("trajectory", table.if_there(roles.trajectory), TRAJECTORIES)
    split = table.one("split", table.if_there(roles.split), SPLITS)
    rest = tuple(name for name in header if name not in {time, trajectory, split, *kept.values()})
    return Understood(time or "", columns, kept, trajectory, split, measured, rest)


class _Header:
    """The names of a table, with and without the units that stand behind them in brackets."""

    def __init__(self, header: Sequence[str], origin: str, known: Sequence[Column] = ()):
        self.origin = origin
        self.known = {plain_name(column.name): column for column in known}
        self.base: dict[str, str] = {}
        self.unit: dict[str, str] = {}
        for name in header:
            match = re.fullmatch(r"(.*?\S)\s*[\[(]([^\])]*)[\])]", name, re.DOTALL)
            self.base[name], self.unit[name] = match.groups() if match else (name, "")
            self.unit[name] = self.unit[name].strip()

    def find(self, name: str, role: str) -> str:
        """The column with this name, with or without its unit."""
        for raw, base in self.base.items():
            if name in (raw, base):
                return raw
        raise InputError(f"{self.origin}: no column '{name}' for the role {role}; found {_listed(self.base)}")

    def is_place(self, name: str) -> bool:
        """Whether a column without a velocity beside it is a coordinate."""
        return _stem(self.base[name]) in (*ANGLES, *PLACES) or plain_name(self.base[name]) in self.known

    def is_angle(self, name: str) -> bool:
        """Whether a coordinate is called like an angle."""
        known = self.known.get(plain_name(self.base[name]))
        return known.angle if known else _stem(self.base[name]) in ANGLES

    def if_there(self, name: str | None) -> str | None:
        """The name itself if there is such a column: another file of the same data may follow the conventions."""
        return name if name in ("", *self.base, *self.base.values()) else None

    def one(self, role: str, given: str | None, conventions: Sequence[str]) -> str | None:
        """The column of a role that only one can have; an empty name stands for none."""
        if given == "":
            return None
        if given is not None:
            return self.find(given, role)
        candidates = [raw for raw, base in self.base.items() if base.lower() in conventions]
        if len(candidates) > 1:
            raise InputError(
                f"{self.origin}: both '{candidates[0]}' and '{candidates[1]}' look like the {role}; choose one with "
                f"--set {role}={candidates[0]} or in a TOML file: {toml({role: candidates[0]})}"
            )
        return candidates[0] if candidates else None


def _pairs(table: _Header, roles: Roles, free: Sequence[str], origin: str) -> dict[str, str | None]:
    """Coordinates, each with its velocity or, when the file has positions only, with None."""
    if roles.coordinates is not None:
        coordinates = [table.find(name, "coordinate") for name in roles.coordinates]
        if not coordinates:
            raise InputError(f"{origin}: got an empty list of coordinates: name at least one")
        if roles.velocities is None:
            pairs = {q: _speeds(table, q, [name for name in free if name not in coordinates]) for q in coordinates}
            return _decided(table, pairs, origin)
        if not roles.velocities:
            return dict.fromkeys(coordinates)
        speeds = [table.find(name, "velocity") for name in roles.velocities]
        if len(speeds) != len(coordinates):
            raise InputError(
                f"{origin}: got {len(speeds)} velocities for {len(coordinates)} coordinates: name one for each, "
                "in the same order, or none"
            )
        return dict(zip(coordinates, speeds, strict=True))
    pairs = {q: _speeds(table, q, free) for q in free}
    speeds = {speed for candidates in pairs.values() for speed in candidates}
    if roles.velocities:
        speeds = {table.find(name, "velocity") for name in roles.velocities}
        pairs = {q: [speed for speed in candidates if speed in speeds] for q, candidates in pairs.items()}
    found = {q: candidates for q, candidates in pairs.items() if candidates and q not in speeds}
    if not found:
        alike = [name for name in free if table.is_place(name)]
        if not alike:
            guess = {"coordinates": list(free) or ["NAME"]}
            raise InputError(
                f"{origin}: need coordinates, each NAME best with its velocity d_NAME; found {_listed(table.base)}; "
                f"say which columns they are with --set coordinates=NAME,NAME or in a TOML file: {toml(guess)}"
            )
        return dict.fromkeys(alike)
    if roles.velocities == ():
        return dict.fromkeys(found)
    return _decided(table, found, origin)


def _decided(table: _Header, pairs: Mapping[str, Sequence[str]], origin: str) -> dict[str, str | None]:
    """One velocity for each coordinate, or none for any; two candidates need the user's word."""
    decided: dict[str, str | None] = {}
    for q, candidates in pairs.items():
        own = [speed for speed in candidates if _fold(table.base[speed]) == f"d_{_fold(table.base[q])}"]
        chosen = own or list(candidates)
        if len(chosen) > 1:
            raise _open_question(origin, f"'{q}' could have the velocity '{chosen[0]}' or '{chosen[1]}'", pairs)
        decided[q] = chosen[0] if chosen else None
    shared = [speed for speed in decided.values() if speed and list(decided.values()).count(speed) > 1]
    if shared:
        raise _open_question(origin, f"'{shared[0]}' could be the velocity of several coordinates", pairs)
    without = [q for q, speed in decided.items() if speed is None]
    if without and len(without) < len(decided):
        raise _open_question(origin, f"'{without[0]}' has no velocity, but other coordinates have", pairs)
    return decided


def _open_question(origin: str, what: str, pairs: Mapping[str, Sequence[str]]) -> InputError:
    guess = {"coordinates": list(pairs), "velocities": [next(iter(c), "NAME") for c in pairs.values()]}
    return InputError(
        f"{origin}: {what}; say it in a TOML file for --config, for example: {toml(guess)} "
        "(velocities = [] estimates all of them from the positions)"
    )


def _speeds(table: _Header, coordinate: str, names: Iterable[str]) -> list[str]:
    """The columns whose names make them the velocity of a coordinate."""
    name = _fold(table.base[coordinate])
    stem, number = _parted(name)
    wanted = {
        f"d_{name}",
        f"d{name}",
        f"{name}_dot",
        f"{name}dot",
        f"d{name}_dt",
        f"d{name}dt",
        f"v_{name}",
        f"v{name}",
    }
    wanted |= {f"{name}_vel", f"{name}_velocity", f"vel_{name}", f"velocity_{name}", f"omega_{name}", f"dot_{name}"}
    wanted |= {f"{stem}_dot{number}", f"{stem}dot{number}", f"{stem}_dot_{number}"}
    for base in SPEEDS.get(stem, ()):
        wanted |= {f"{base}{number}", f"{base}_{number}"} if number else {base}
    return [other for other in names if other != coordinate and _fold(table.base[other]) in wanted]


def _is_made(name: str, coordinates: Sequence[str]) -> bool:
    """Whether a column holds accelerations or deviations, which are not read."""
    made = {f"{mark}{_fold(q)}" for q in coordinates for mark in ("dd_", "dd", "sd_dd_", "sd_d_")}
    made |= {f"{_fold(q)}_ddot" for q in coordinates} | {f"{_fold(q)}ddot" for q in coordinates}
    return name.startswith("dd_") or _fold(name) in made


def _columns(table: _Header, roles: Roles, coordinates, inputs, parameters, origin: str) -> Columns:
    units = {table.find(name, "unit"): unit for name, unit in roles.units.items()}
    angles = None if roles.angles is None else {table.find(name, "angle") for name in roles.angles}

    def column(raw: str, *, place: bool = False) -> Column:
        unit: str = units.get(raw) or table.unit[raw]
        turned = unit.lower() in DEGREES
        if turned and angles is not None and raw in angles:
            raise InputError(f"{origin}: angle '{raw}' is in degrees: convert it and its velocity to rad")
        named = table.is_angle(raw) or unit.lower() == "rad"
        return Column(table.base[raw], unit, place and (raw in angles if angles is not None else named and not turned))

    wrong = sorted((angles or set()) - set(coordinates))
    if wrong:
        raise InputError(f"{origin}: angle '{wrong[0]}' is not one of the coordinates {_listed(coordinates)}")
    return Columns(
        tuple(column(raw, place=True) for raw in coordinates),
        tuple(map(column, inputs)),
        tuple(map(column, parameters)),
    )


def _sources(table: _Header, pairs: Mapping[str, str | None], external: Iterable[str]) -> dict[str, str]:
    sources = {table.base[raw]: raw for raw in (*pairs, *external)}
    return sources | {f"d_{table.base[q]}": speed for q, speed in pairs.items() if speed}


def _names(value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) and value else tuple(map(str, value))


def _fold(name: str) -> str:
    return name.lower().replace(" ", "_")


def _parted(name: str) -> tuple[str, str]:
    """A folded name and the number at its end: `theta_1` is `theta` and `1`."""
    match = re.fullmatch(r"(.*?)_?(\d*)", name, re.DOTALL)
    assert match  # any text matches
    return match.group(1), match.group(2)


def _stem(name: str) -> str:
    return _parted(_fold(name))[0]


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:20]) + (" ..." if len(shown) > 20 else "") if shown else "no columns"


def _toml(value) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(name)} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
