"""The command `fnode`: the only place that prints, exits, or sets global configuration."""

import _thread
import importlib
import os
import signal
import sys
import threading
from typing import Annotated

import typer

from fnode.cli._processes import leave
from fnode.cli._shared import app, console
from fnode.errors import InputError

VERBS = ("listing", "simulate", "check", "differentiate", "learn", "predict", "score", "control", "bench")
for verb in VERBS:  # each file adds its verb to the application; this order is the order of the help
    importlib.import_module(f"fnode.cli.{verb}")
INTERRUPTED = 130
AGAIN_SECONDS = 0.05  # after which an interrupt that was lost comes again
FILE_WIDTH = 220  # of what goes into a file or another program: the widest table of the bench, uncut


def main() -> None:
    """Run the command; every user's error is one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _not_lost
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = FILE_WIDTH
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
    leave(code or 0)


def _interrupt(*_) -> None:
    """SIGTERM acts as Ctrl-C, also where the shell has made SIGINT ineffective."""
    raise KeyboardInterrupt


def _not_lost(unraisable) -> None:
    """An interrupt that met a finaliser or a callback of the garbage collector, where Python drops it, comes again."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        again = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main, (signal.SIGTERM,))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def _complain(line: str) -> int:
    print(f"fnode: {' '.join(line.split())}", file=sys.stderr)  # noqa: T201
    return 2


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Learn the dynamics of mechanisms from their trajectories."""
    if version:
        import importlib.metadata

        console.print(f"fnode {importlib.metadata.version('fnode')}", highlight=False)
