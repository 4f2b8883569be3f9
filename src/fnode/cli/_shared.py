"""What the verbs of the command share: the application, its options, how it prints and shows progress."""

import contextlib
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

app = typer.Typer(
    help="Learn the dynamics of mechanisms from their trajectories.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
console = Console()
FUSION_EMITTERS = "xla_cpu_use_fusion_emitters"  # of XLA: machine code that is a little faster, in twice the time

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]


def prepare_jax() -> None:
    """64-bit physics, and programs compiled quickly and kept between commands."""
    given = os.environ.get("XLA_FLAGS", "")
    if FUSION_EMITTERS not in given:  # long trainings ask for them all the same
        os.environ["XLA_FLAGS"] = f"--{FUSION_EMITTERS}=false {given}".strip()
    import jax

    jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fnode"
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def system_settings(system: str | None, assignments: list[str] | None) -> dict:
    """What `--set` says, where a system's parameters and states are names too."""
    import dataclasses

    from fnode.config import settings
    from fnode.systems import system_named

    kind = system_named(system) if system else None
    parameters = [field.name for field in dataclasses.fields(kind)] if kind else []
    states = [column.name for column in kind.columns.state] if kind else []
    return settings(assignments or [], parameters, states, files=system is None)


def roles(assignments: list[str] | None) -> dict:
    """What `--set` says of the columns of a file: the roles that `fnode.io.read` takes."""
    import dataclasses

    from fnode.config import settings, validated
    from fnode.errors import InputError
    from fnode.io import roles_given

    given = settings(assignments or [], files=True)
    found = validated(given, "--set").data.roles
    allowed = {field.name for field in dataclasses.fields(found)}
    if set(given) - {"data"} or set(given.get("data", {})) - allowed:
        raise InputError(f"--set {(assignments or [''])[0]}: need the role of a column: {', '.join(sorted(allowed))}")
    return roles_given(found)


def progress_bar(told: str) -> Progress:
    """A progress bar with a text of its own, on terminals only."""
    columns = ("{task.description}", BarColumn(), TextColumn(told), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def print_json(document) -> None:
    print(json.dumps(document, indent=2))  # noqa: T201
