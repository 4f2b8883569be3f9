"""`fnode learn`: from a system or files to a scored model."""

import contextlib
import math
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fnode.cli._processes import Coordinator, Processes, Rank, join
from fnode.cli._shared import Settings, app, console, prepare_jax, progress_bar, system_settings
from fnode.errors import InputError

WELL = 0.05  # relative squared error of the worst held-out window up to which nothing need be said


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
    coordinator: Coordinator = None,
    processes: Processes = 1,
    rank: Rank = 0,
) -> None:
    """Learn a model and score it. Example: `fnode learn mass_spring_damper --seeds 3 -o runs/msd`."""
    prepare_jax()
    from fnode.config import merged, read_config
    from fnode.preparation import resolved
    from fnode.recipes import default_recipe

    stored = read_config(config) if config else {}
    source = _source(sources or [], stored)
    system = source.get("system")
    given = system_settings(system, settings)
    top = {
        "recipe": recipe,
        "model": model,
        "seeds": seeds,
        "starts": starts,
        "data": {"noise": noise} if noise is not None else None,
    }
    values = merged(stored, {name: value for name, value in top.items() if value is not None}, given, source)
    complete = resolved(values, values.get("recipe") or default_recipe(values.get("model", "fnode")), system)
    if dry_run:
        print(complete.to_toml(), end="")  # noqa: T201
        return
    if processes > 1 and not complete.stream.design:
        raise InputError(f"got {processes} processes, but only a stream is shared among them: set a design")
    if complete.stream.design:
        join(coordinator, processes, rank)
    if rank > 0:
        take_part(complete)
        return
    learn_into(complete, output, resume=resume, force=force)


def take_part(config) -> None:
    """Train with the other processes; the first of them keeps the results."""
    from fnode.learn import UNWATCHED, train
    from fnode.preparation import prepare, read_as
    from fnode.streaming import held_out

    for start, part in enumerate(prepare(config, read_as(config, held_out(config)) if config.files else None)):
        train(config, part, start, UNWATCHED)


def learn_into(config, output: Path, *, resume: bool, force: bool) -> None:
    """Learn what a configuration says and leave a run folder with its report."""
    from fnode import io
    from fnode.learn import run
    from fnode.methods import check_method
    from fnode.preparation import linked, prepare, read_as, trusted
    from fnode.run_folder import REPORT, RunFolder
    from fnode.streaming import held_out

    folder = RunFolder(output)
    if resume and folder.finished:
        console.print(f"{output} is already finished", highlight=False)
        return
    folder.check(force=force, resume=resume)
    files = linkage = None
    if config.files:
        files, linkage = linked(config, read_as(config, held_out(config)))
        config, files = trusted(config, files)
    prepared = prepare(config, files, linkage)  # before the folder is made, so that bad data leaves no trace
    folder.claim(config, force=force, resume=resume)
    assumption = check_method(config, prepared[0].recordings[0].truth.columns, None) if config.files else None
    if assumption:
        folder.log(assumption)
        console.print(f"note: {assumption}", highlight=False)
    folder.log(f"learn {config.system or ' '.join(config.files)}: {config.model}, recipe {config.recipe}")
    for line in _understood(files, prepared[0]) if files else ():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
        folder.log(line)
    with _training_bar(config) as (told, note):
        finished = run(config, prepared, folder.watch(told, note, resume=resume))
    figures = folder.write(finished)
    from fnode.report import page

    io.write_text(output / REPORT, page(finished, figures))
    folder.log(f"finished: median MSE {figures['median']['mse']['full']}")
    folder.tidy()
    console.print(_score_table(figures))
    part, seed = finished.chosen
    for line in (*_published(config), *_cost(figures["data"]), *_trust(part.seeds[seed].verdict)):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(f"report: {output / REPORT}", highlight=False)


def _published(config) -> list[str]:
    """What the paper prints for this system and model, by the paper's recipe on data as they come."""
    from fnode.bench.published import ERRORS

    value = ERRORS.get(config.system, {}).get(config.model)
    as_published = config.recipe.startswith("paper") and not config.parameters and config.data == type(config.data)()
    if value is None or not as_published:
        return []
    other = ", of data that its equations do not give (docs/paper.md)" if config.system == "slider_crank" else ""
    return [f"published: MSE all {value:.1e}{other}"]


def _cost(data: dict) -> list[str]:
    """What the flaws of the data cost, where it is known."""
    if data["noise"] is None or data["label_error"] is None:
        return []
    noise, error = (_percent("about", max(data[name].values())) for name in ("noise", "label_error"))
    return [
        f"data: noise {noise} of the motion, {100 * data['missing']:.2g} % of the samples missing; "
        f"accelerations off by {error} of their spread"
    ]


def _percent(bound: str, share: float) -> str:
    return f"{bound} {100 * share:.2g} %" if share >= 1e-4 else "less than 0.01 %"


def _trust(verdict) -> list[str]:
    """What was chosen, how well it foretold windows it was not fitted to, and a warning where that is not well."""
    if verdict is None:
        return []
    from fnode.selection import describe

    off = f"off by {_percent('at most', verdict.worst**0.5)} of their motion"
    good = verdict.worst <= WELL
    lines = [
        f"structure: {describe(verdict)}; held-out windows {off if math.isfinite(verdict.worst) else 'left for good'}"
    ]
    return (
        lines
        if good
        else [*lines, "warning: no structure foretells these data well: give more of them, or longer ones"]
    )


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


def _understood(files, prepared) -> list[str]:
    """What was understood of the files, done to them, and will be learned from."""
    recordings, linkage = prepared.recordings, prepared.linkage
    samples = sum(recording.training for recording in recordings)
    held_out = sum(len(recording.truth) for recording in recordings) - samples
    trained = sum(1 for recording in recordings if recording.training)
    return [
        *(files.roles.lines() if files.roles else ()),
        *(f"cleaned:     {note}" for note in files.notes),
        *(linkage.lines() if linkage else ()),
        f"training:    {samples} samples of {trained} out of {len(recordings)} trajectories; {held_out} held out",
        *([] if linkage else _redundancy(recordings)),
    ]


def _redundancy(recordings) -> list[str]:
    """What to tell of coordinates that are bound to one another in the training part."""
    import numpy as np

    from fnode.analysis import bound

    coordinates = recordings[0].truth.columns.coordinates
    parts = [recording.truth[: recording.training] for recording in recordings if recording.training]
    tracks = [(np.asarray(part.ts), np.asarray(part.x.q)) for part in parts]
    found = bound(tracks, [column.angle for column in coordinates])
    return [f"advice:      {found.line([column.name for column in coordinates])}"] if found else []


@contextlib.contextmanager
def _training_bar(config):
    """A progress bar over all epochs of all starts; silent when nobody watches."""
    with progress_bar("{task.fields[loss]}") as bar:
        task = bar.add_task("learning", total=None, loss="compiling")

        def told(start, progress):
            loss = f"loss {float(progress.best_loss.min()):.2e}"
            rounds = progress.history.shape[1]  # epochs, or blocks of a stream
            bar.update(task, completed=start * rounds + int(progress.epoch), total=rounds * config.starts, loss=loss)

        yield told, lambda start, line: bar.update(task, loss=line)


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
