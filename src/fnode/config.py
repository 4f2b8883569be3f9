"""Everything a run depends on, as one checked value that a TOML file can hold."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import tomli_w

from fnode.errors import InputError
from fnode.io import Roles
from fnode.models import Kinematics


class Section(pydantic.BaseModel):
    """A table of the configuration; unknown names and wrong types are errors."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _named(value: Any) -> Any:
    """A single name is a list of one; numbers, as `--set` reads them, are names too."""
    if isinstance(value, (list, tuple)):
        return [str(part) if isinstance(part, (int, float)) else part for part in value if part != ""]
    return [value] if isinstance(value, str) and value else [] if value == "" else value


Names = Annotated[tuple[str, ...], pydantic.BeforeValidator(_named)]
NETWORK_WORDS = {"inputs": ("state", "positions"), "angles": ("plain", "sincos")}
"""What these names mean for a network; any other value names columns of a file."""


class Data(Section):
    """Where the trajectories come from; what is not given is the system's own, or what the header of a file says."""

    steps: pydantic.PositiveInt | None = None
    train: pydantic.PositiveInt | None = None
    dt: pydantic.PositiveFloat | None = None
    data_solver: str | None = None
    coordinates: Literal["minimal", "full"] | Names = "minimal"  # of a constrained mechanism; or columns of a file
    noise: pydantic.NonNegativeFloat = 0.0
    # Of files: the columns' roles, what is done about gaps, and what is for training: a share of each trajectory, a
    # column, or the names of trajectories held out; by default the file's own split, or else three quarters of each.
    time: str | None = None
    trajectory: str | None = None
    velocities: Names | None = None
    inputs: Names | None = None
    parameters: Names | None = None
    angles: Names | None = None
    units: dict[str, str] = {}
    gaps: Literal["split", "bridge"] | None = None
    mechanism: str | None = None  # a TOML file: the constraints among the coordinates
    split: (
        Annotated[float, pydantic.Field(gt=0, le=1)] | Annotated[str, pydantic.Field(min_length=1)] | Names | None
    ) = None

    @property
    def roles(self) -> Roles:
        """What is said of the columns of a file."""
        return Roles(
            self.time,
            self.trajectory,
            self.split if isinstance(self.split, str | None) else "",  # a share or a list: no column tells
            self.coordinates if isinstance(self.coordinates, tuple) else None,
            self.velocities,
            self.inputs,
            self.parameters,
            self.angles,
            self.units,
        )


class Labels(Section):
    """How accelerations are made from the training part, and what training makes of them.

    Methods that see through noise also give states without it; `denoise` trains on those. `weighted` lets a label
    count by the inverse of its variance.
    """

    labels: str = "difference3"
    denoise: bool = True
    weighted: bool = False


Structure = Literal["mlp", "linear_skip", "quadratic", "lagrangian", "library", "library_network"]


class Network(Section):
    """The learned function."""

    structure: Structure = "mlp"
    degree: pydantic.NonNegativeInt = 2  # of the terms of a library
    joints: bool = False  # whether a library of degree two has no other terms than joints of rigid bodies make
    # In the joints of a library: `dry` friction and air drag, or dry friction that goes with what a joint carries (its
    # `load`), with a coefficient that may be a parameter, by name.
    friction: Literal["none", "dry", "load"] = "none"
    coefficient: str | None = None
    width: pydantic.PositiveInt = 256
    depth: pydantic.PositiveInt = 2
    kinematics: Kinematics = "free"  # of a system of first order: `rolling` learns only how heading and speed change
    inputs: Literal["state", "positions"] = "state"
    angles: Literal["plain", "sincos"] = "plain"  # how the network is shown coordinates that are angles
    scale: bool = False


class Training(Section):
    """How the learned function is fitted: by gradients, or by least squares with the best of several `structures`."""

    optimiser: Literal["adam", "adamw", "least_squares"] = "adam"
    structures: Annotated[tuple[Structure, ...], pydantic.Field(min_length=1), pydantic.BeforeValidator(_named)] = (
        "library",
        "library_network",
        "linear_skip",
        "quadratic",
        "lagrangian",
    )
    epochs: pydantic.PositiveInt = 450
    # Of a stream also several sizes, one after the other.
    batch: (
        pydantic.PositiveInt
        | Literal["all"]
        | Annotated[tuple[pydantic.PositiveInt, ...], pydantic.Field(min_length=1)]
    ) = 1
    learning_rate: pydantic.PositiveFloat = 1e-3
    decay: Annotated[float, pydantic.Field(gt=0, le=1)] = 0.98
    weight_decay: pydantic.NonNegativeFloat = 0.0
    clip: pydantic.PositiveFloat | None = None
    loss: Literal["mse", "huber"] = "mse"
    huber_delta: pydantic.PositiveFloat = 1.0
    precision: Literal["float32", "float64"] = "float32"


class Stream(Section):
    """Training data that is made or read while it is used, block by block; none without a `design`."""

    design: Literal["grid", "random", "sobol", "files"] | None = None
    levels: Annotated[int, pydantic.Field(ge=2)] = 4  # values of each parameter of a grid
    ranges: dict[str, tuple[float, float]] = {}  # of parameters, where they are not the system's own
    count: pydantic.PositiveInt = 2**18  # trajectories in an epoch of a random or sobol design
    block: pydantic.PositiveInt = 1024  # trajectories at a time
    rows: pydantic.PositiveInt | Literal["all"] = 32  # samples taken from each trajectory
    exact_labels: bool = False  # the system's own equations as labels, for comparison
    held_out: pydantic.PositiveInt = 1  # files, the last ones, that are for scoring alone


class Windows(Section):
    """What models that are trained on stretches of states see of them."""

    window: pydantic.PositiveInt = 1  # steps of a window
    adjoint: Literal["steps", "direct", "recursive_checkpoint", "backsolve"] = "steps"  # how mbd_node finds gradients


class Rollout(Section):
    """How the learned field is integrated."""

    solver: str = "rk4"
    substeps: pydantic.PositiveInt | Literal["auto"] = 1  # from one sample to the next; as many as the field needs


class Config(Section):
    """One run: a system or files, a recipe resolved into its numbers, seeds and starts."""

    system: str | None = None
    files: tuple[str, ...] = ()
    model: str = "fnode"
    recipe: str = "paper"
    seeds: pydantic.PositiveInt = 1
    starts: pydantic.PositiveInt = 1
    seed: pydantic.NonNegativeInt = 0
    parameters: dict[str, float | tuple[float, ...]] = {}
    start: dict[str, float] = {}
    data: Data = Data()
    labels: Labels = Labels()
    network: Network = Network()
    training: Training = Training()
    stream: Stream = Stream()
    windows: Windows = Windows()
    rollout: Rollout = Rollout()

    def to_toml(self) -> str:
        return tomli_w.dumps(self.model_dump(exclude_none=True, mode="json"))


TABLES = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
}
"""The tables of a configuration by name."""


def validated(values: dict[str, Any], origin: str = "configuration") -> Config:
    """The configuration these values make, or an error in one line."""
    try:
        return Config.model_validate(values)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{origin}: {place}: {first['msg']} (got {first['input']!r})") from None


def read_config(path: str | Path) -> dict[str, Any]:
    """The values of a TOML file, checked as a configuration."""
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None
    validated(values, str(path))
    return values


def merged(*layers: dict[str, Any]) -> dict[str, Any]:
    """Nested values, later layers over earlier ones."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            old = result.get(name)
            result[name] = merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return result


def settings(
    assignments: Sequence[str], parameters: Sequence[str] = (), states: Sequence[str] = (), *, files: bool = False
) -> dict[str, Any]:
    """The values that `--set name=value` options give, each in its table.

    A name is a system's parameter, a state's column (its value at the start), or a setting of any table. Of `files`,
    `inputs` and `angles` are columns unless they say how a network sees its state.
    """
    values: dict[str, Any] = {}
    homes = {name: table for table, section in TABLES.items() for name in section.model_fields}
    homes |= dict.fromkeys(states, "start") | dict.fromkeys(parameters, "parameters")
    top = [name for name in ("seed", "seeds", "starts") if name not in homes]
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not (name in homes or name in top):
            known = ", ".join(sorted([*homes, *top]))
            raise InputError(f"--set {assignment}: need name=value, where name is one of {known}")
        home, value = homes.get(name), _value(text)
        if files and name in NETWORK_WORDS and value not in NETWORK_WORDS[name]:
            home = "data"
        values = merged(values, {home: {name: value}} if home else {name: value})
    return values


def _value(text: str) -> Any:
    """A number, a list of numbers, true or false, or else the text itself."""
    if "," in text:
        return [_value(part) for part in text.split(",")]
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
