"""The command `fnode`: the only place that prints, exits, or sets global configuration."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from fnode.errors import InputError

app = typer.Typer(
    help="Learn the dynamics of mechanisms from their trajectories.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
console = Console()
INTERRUPTED = 130

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]


def main() -> None:
    """Run the command; every user's error is one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        code = _complain(error.format_message())
    except InputError as error:
        code = _complain(str(error))
    except OSError as error:
        code = _complain(f"{error.filename or 'file'}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:  # typer itself turns an interrupt inside a command into this code
        print("fnode: interrupted; what was finished is kept", file=sys.stderr)  # noqa: T201
    sys.exit(code or 0)


def _interrupt(*_) -> None:
    """SIGTERM acts as Ctrl-C, also where the shell has made SIGINT ineffective."""
    raise KeyboardInterrupt


def _complain(line: str) -> int:
    print(f"fnode: {' '.join(line.split())}", file=sys.stderr)  # noqa: T201
    return 2


def _prepare_jax() -> None:
    """64-bit physics, and compiled programs kept between commands."""
    import jax

    jax.config.update("jax_enable_x64", True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fnode"
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Learn the dynamics of mechanisms from their trajectories."""
    if version:
        import importlib.metadata

        console.print(f"fnode {importlib.metadata.version('fnode')}", highlight=False)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="systems, models, recipes, derivatives, solvers or experiments")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is by name. Example: `fnode list systems`."""
    from fnode.bench import EXPERIMENTS
    from fnode.derivatives import DERIVATIVES
    from fnode.errors import choose
    from fnode.models import MODELS
    from fnode.recipes import RECIPES
    from fnode.solvers import SOLVERS
    from fnode.systems import SYSTEMS

    kinds = {
        "systems": SYSTEMS,
        "models": MODELS,
        "recipes": RECIPES,
        "derivatives": DERIVATIVES,
        "solvers": SOLVERS,
        "experiments": EXPERIMENTS,
    }
    if kind is not None:
        kinds = {kind: kinds[choose("list", kind, kinds)]}
    if as_json:
        _print_json({name: list(members) for name, members in kinds.items()} if kind is None else list(kinds[kind]))
        return
    for name, members in kinds.items():
        table = Table(title=name, title_justify="left", show_header=False, box=None, pad_edge=False)
        for member, value in members.items():
            table.add_row(member, (value.__doc__ or "").partition("\n")[0])
        console.print(table, "")


@app.command()
def simulate(
    system: Annotated[
        str, typer.Argument(metavar="SYSTEM|MECHANISM.toml", help="A built-in system or a mechanism file.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    steps: Annotated[int | None, typer.Option(help="Samples, t = 0 ... (N-1) dt.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time between samples in seconds.")] = None,
    noise: Annotated[float, typer.Option(help="Gaussian noise, in standard deviations of each column.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    settings: Settings = None,
) -> None:
    """Write the motion of a system. Example: `fnode simulate double_pendulum -o swing.csv --steps 1000`."""
    _prepare_jax()
    if system.endswith(".toml"):
        _simulate_mechanism(Path(system), output, steps or 1001, 0.01 if dt is None else dt, noise, seed, settings)
        return
    import jax

    from fnode import io
    from fnode.config import merged, validated
    from fnode.run_folder import writable
    from fnode.systems import configured, noisy, recordings, system_named

    given = _system_settings(system, settings)
    data = {name: value for name, value in {"steps": steps, "dt": dt, "noise": noise}.items() if value is not None}
    config = validated(merged({"system": system, "data": data, "seed": seed}, given), "options")
    writable(output)
    made = recordings(
        configured(system_named(system), config.parameters),
        start=config.start,
        steps=config.data.steps,
        dt=config.data.dt,
        data_solver=config.data.data_solver,
        full=True,
        key=jax.random.key(config.seed),
    )
    key = jax.random.key(config.seed)
    parts = {r.name: noisy(r.truth, config.data.noise, jax.random.fold_in(key, k)) for k, r in enumerate(made)}
    io.write(output, parts)
    console.print(f"{output}: {sum(map(len, parts.values()))} samples of {system}", highlight=False)


def _simulate_mechanism(path: Path, output: Path, steps: int, dt: float, noise: float, seed: int, settings) -> None:
    """The motion of a mechanism described by a file, in all its coordinates."""
    import jax
    import jax.numpy as jnp

    from fnode import io
    from fnode.mechanisms import read_mechanism, simulate
    from fnode.run_folder import writable
    from fnode.systems import noisy

    if settings:
        raise InputError(f"--set {settings[0]}: a mechanism's numbers are in its file; change {path}")
    if steps < 1 or not dt > 0:
        raise InputError(f"got --steps {steps} and --dt {dt:g}: need at least one step and dt > 0")
    writable(output)
    mechanism = read_mechanism(path)
    if mechanism.columns.inputs:
        names = ", ".join(column.name for column in mechanism.columns.inputs)
        raise InputError(
            f"{path} has inputs ({names}), which only Python can give: fnode.mechanisms.simulate(control=)"
        )
    motion = noisy(simulate(mechanism, dt * jnp.arange(steps)), noise, jax.random.key(seed))
    io.write(output, {"0": motion})
    console.print(f"{output}: {len(motion)} samples of {path.name}", highlight=False)


@app.command()
def differentiate(
    file: Annotated[Path, typer.Argument(help="A trajectory file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    method: Annotated[str, typer.Option(help="How: see `fnode list derivatives`.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the derivatives of a file, with their errors, and draw them.

    Beside the output file a page of the same name shows signal, derivative, residuals and spectrum.
    Example: `fnode differentiate swing.csv -o labels.csv`.
    """
    _prepare_jax()
    import dataclasses

    from fnode import io
    from fnode.derivatives import derivative_named
    from fnode.learn import label
    from fnode.report import differentiation
    from fnode.report.differentiation import HEADINGS, row
    from fnode.run_folder import writable

    derivative_named(method)
    writable(output)
    trajectories = io.read(file, gaps=True)
    found = {name: (trajectory, label(trajectory, method)) for name, trajectory in trajectories.items()}
    io.write_labels(output, found)
    io.write_text(output.with_suffix(".html"), differentiation(file.name, method, found))
    diagnoses = {
        (name, column.name): labels.diagnostics[i]
        for name, (trajectory, labels) in found.items()
        for i, column in enumerate(trajectory.columns.coordinates)
    }
    if as_json:
        _print_json([{"trajectory": n, "coordinate": c} | dataclasses.asdict(d) for (n, c), d in diagnoses.items()])
        return
    table = Table(*HEADINGS[1 if len(found) == 1 else 0 :], box=None, pad_edge=False)
    for (name, coordinate), diagnosis in diagnoses.items():
        table.add_row(*row(name, coordinate, diagnosis)[1 if len(found) == 1 else 0 :])
    console.print(table)
    console.print(f"{output}, {output.with_suffix('.html')}", highlight=False)


@app.command()
def learn(
    output: Annotated[Path, typer.Option("-o", "--output", help="The run folder.")],
    sources: Annotated[list[str] | None, typer.Argument(help="A built-in system, or trajectory files.")] = None,
    recipe: Annotated[str | None, typer.Option(help="A named set of choices: see `fnode list recipes`.")] = None,
    model: Annotated[str | None, typer.Option(help="What is learned: see `fnode list models`.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Networks trained side by side.")] = None,
    starts: Annotated[int | None, typer.Option(help="Systems whose start is moved a little.")] = None,
    noise: Annotated[float | None, typer.Option(help="Gaussian noise on the training part.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings.")] = None,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the resolved configuration and stop.")] = False,
) -> None:
    """Learn a model and score it. Example: `fnode learn mass_spring_damper --seeds 3 -o runs/msd`."""
    _prepare_jax()
    from fnode.config import merged, read_config
    from fnode.learn import resolved

    stored = read_config(config) if config else {}
    source = _source(sources or [], stored)
    system = source.get("system")
    given = _system_settings(system, settings)
    top = {
        "recipe": recipe,
        "model": model,
        "seeds": seeds,
        "starts": starts,
        "data": {"noise": noise} if noise is not None else None,
    }
    values = merged(stored, {name: value for name, value in top.items() if value is not None}, given, source)
    complete = resolved(values, values.get("recipe", "paper"), system)
    if dry_run:
        print(complete.to_toml(), end="")  # noqa: T201
        return
    _learn(complete, output, resume=resume, force=force)


def _learn(config, output: Path, *, resume: bool, force: bool) -> None:
    from fnode import io
    from fnode.learn import prepare, run
    from fnode.run_folder import REPORT, RunFolder

    folder = RunFolder(output)
    if resume and folder.finished:
        console.print(f"{output} is already finished", highlight=False)
        return
    folder.check(force=force, resume=resume)
    prepared = prepare(config, _read_files(config.files))  # before the folder is made, so that bad data leaves no trace
    folder.claim(config, force=force, resume=resume)
    folder.log(f"learn {config.system or ' '.join(config.files)}: {config.model}, recipe {config.recipe}")
    with _training_bar(config) as told:
        finished = run(config, prepared, folder.watch(told, resume=resume))
    figures = folder.write(finished)
    from fnode.report import page

    io.write_text(output / REPORT, page(finished, figures))
    folder.log(f"finished: median MSE {figures['median']['mse']['full']}")
    folder.tidy()
    console.print(_score_table(figures))
    console.print(f"report: {output / REPORT}", highlight=False)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A .csv, .parquet or .npz file.")],
    start: Annotated[Path | None, typer.Option("--from", help="A file whose first samples are the starts.")] = None,
    until: Annotated[float | None, typer.Option(help="The time at which to stop.")] = None,
    dt: Annotated[float | None, typer.Option(help="Time between samples; the data's own by default.")] = None,
    settings: Settings = None,
) -> None:
    """Roll a learned model out. Example: `fnode predict runs/msd --set x=0.5 --until 10 -o future.csv`."""
    _prepare_jax()
    from fnode import io
    from fnode.model import Model
    from fnode.run_folder import PREDICTION, writable

    model = Model.load(run)
    writable(output)
    source = start or run / PREDICTION
    futures = {}
    for name, trajectory in io.read(source, model.columns).items():
        trajectory = _with_start(trajectory, settings or [])
        futures[name] = model.simulate(trajectory, until=until, dt=dt).checked(f"the rollout of {name}")
    io.write(output, futures)
    console.print(f"{output}: {sum(map(len, futures.values()))} samples", highlight=False)


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A finished run folder.")],
    file: Annotated[Path, typer.Argument(help="A trajectory file to compare with.")],
    as_json: AsJson = False,
) -> None:
    """Score a learned model on a file. Example: `fnode score runs/msd swing.csv`."""
    _prepare_jax()
    from fnode import io
    from fnode.metrics import mse, rmse
    from fnode.model import Model

    model = Model.load(run)
    results = {}
    for name, trajectory in io.read(file, model.columns).items():
        predicted = model.simulate(trajectory).x
        errors = rmse(predicted, trajectory.x)
        results[name] = {
            "mse": float(mse(predicted, trajectory.x)),
            "rmse": {column.name: float(errors[i]) for i, column in enumerate(model.columns.state)},
        }
    if as_json:
        _print_json(results)
        return
    table = Table("trajectory", "MSE", *(f"RMSE {column.name}" for column in model.columns.state))
    for name, figures in results.items():
        table.add_row(name, f"{figures['mse']:.3g}", *(f"{value:.3g}" for value in figures["rmse"].values()))
    console.print(table)


@app.command()
def bench(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of results; finished cells are kept.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All of them by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeats of everything random.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Small budgets: a smoke test.")] = False,
) -> None:
    """Run experiments and print their tables. Example: `fnode bench label_study -o study`."""
    _prepare_jax()
    from fnode.bench import EXPERIMENTS, run_bench
    from fnode.errors import choose

    chosen = [EXPERIMENTS[choose("experiment", name, EXPERIMENTS)] for name in names or EXPERIMENTS]
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file: choose a folder for the results")
    output.mkdir(parents=True, exist_ok=True)
    bar = _bar("{task.fields[cell]}")
    with bar:
        task = bar.add_task("bench", total=None, cell="")

        def told(name, cell, done, total):
            bar.update(task, completed=done, total=total, cell=f"{name}: {cell.name}")

        tables = run_bench(chosen, output, seeds=seeds, quick=quick, report=told)
    for headings in tables.values():
        for heading in headings:
            table = Table(*heading.columns, title=heading.title, caption=heading.text, title_justify="left")
            for line in heading.rows:
                table.add_row(*line)
            console.print(table, "")
    console.print(", ".join(str(output / f"{name}.md") for name in tables), highlight=False)


def _system_settings(system: str | None, assignments: list[str] | None) -> dict:
    """What `--set` says, where a system's parameters and states are names too."""
    import dataclasses

    from fnode.config import settings
    from fnode.systems import system_named

    kind = system_named(system) if system else None
    parameters = [field.name for field in dataclasses.fields(kind)] if kind else []
    states = [column.name for column in kind.columns.state] if kind else []
    return settings(assignments or [], parameters, states)


def _source(sources: list[str], stored: dict) -> dict:
    """A system or files, from the arguments or else from the configuration file."""
    from fnode.systems import SYSTEMS

    if not sources:
        if not (stored.get("system") or stored.get("files")):
            raise InputError("nothing to learn from: name a system (see `fnode list systems`) or trajectory files")
        return {name: stored[name] for name in ("system", "files") if name in stored}
    if len(sources) == 1 and (sources[0] in SYSTEMS or "." not in sources[0]):
        return {"system": sources[0]}
    return {"files": sources}


def _read_files(paths):
    """All trajectories of all files; every file must have the columns of the first."""
    from fnode import io

    found = {}
    columns = None
    for path in paths:
        for name, trajectory in io.read(path, columns).items():
            columns = trajectory.columns
            found[name if len(paths) == 1 else f"{Path(path).stem}/{name}"] = trajectory
    return found


def _with_start(trajectory, assignments: list[str]):
    """A trajectory whose first sample has some of its states changed."""
    import dataclasses

    from fnode.config import settings
    from fnode.trajectory import State

    names = [column.name for column in trajectory.columns.state]
    given = settings(assignments, [], names)
    if set(given) - {"start"}:
        raise InputError(f"--set of predict takes states at the start: {', '.join(names)}")
    q, v = trajectory.x.q, trajectory.x.v
    for name, value in given.get("start", {}).items():
        k = names.index(name)
        q, v = (q.at[0, k].set(value), v) if k < q.shape[1] else (q, v.at[0, k - q.shape[1]].set(value))
    return dataclasses.replace(trajectory, x=State(q, v))


@contextlib.contextmanager
def _training_bar(config):
    """A progress bar over all epochs of all starts; silent when nobody watches."""
    epochs = config.training.epochs
    with _bar("{task.fields[loss]}") as bar:
        task = bar.add_task("learning", total=epochs * config.starts, loss="compiling")

        def told(start, progress):
            loss = f"loss {float(progress.best_loss.min()):.2e}"
            bar.update(task, completed=start * epochs + int(progress.epoch), loss=loss)

        yield told


def _bar(told: str) -> Progress:
    """A progress bar with a text of its own, on terminals only."""
    columns = ("{task.description}", BarColumn(), TextColumn(told), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _score_table(figures: dict) -> Table:
    title = f"{figures['system']}: {figures['model']}, recipe {figures['recipe']}"
    table = Table(title=title)
    for heading in ("seed", "start", "MSE all", "train", "test", "drift", "compile", "train"):
        table.add_column(heading, justify="right", no_wrap=True)

    def shown(value):
        return "-" if value is None else f"{value:.1e}"

    def clock(value):
        return f"{value:.1f} s"

    for entry in figures["seeds"]:
        errors, seconds = entry["mse"], entry["seconds"]
        table.add_row(
            str(entry["seed"]),
            str(entry["start"]),
            *(shown(errors[part]) for part in ("full", "train", "test")),
            shown(entry["energy_drift"]),
            clock(seconds["compile"]),
            clock(seconds["train"]),
        )
    if len(figures["seeds"]) > 1:
        table.add_section()
        errors = figures["median"]["mse"]
        drift = shown(figures["energy_drift"])
        table.add_row("median", "", *(shown(errors[part]) for part in ("full", "train", "test")), drift, "", "")
    return table


def _print_json(document) -> None:
    print(json.dumps(document, indent=2))  # noqa: T201
