"""Several processes that train one model: how one joins the others, and how it leaves when they are lost."""

import os
import sys
from typing import Annotated

import typer

from fnode.errors import InputError

HEARTBEAT_SECONDS = 30  # after which a silent process, such as one on a machine that lost power, counts as lost

Coordinator = Annotated[
    str | None,
    typer.Option(envvar="FNODE_COORDINATOR", metavar="HOST:PORT", help="Where the first of several processes listens."),
]
Processes = Annotated[int, typer.Option(envvar="FNODE_PROCESSES", min=1, help="How many processes train together.")]
Rank = Annotated[int, typer.Option(envvar="FNODE_RANK", min=0, help="Which of them this one is, from 0.")]


def join(coordinator: str | None, processes: int, rank: int) -> None:
    """Become one of several processes; a single one makes a device of each of its cores instead."""
    import jax

    if processes == 1:
        jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
        return
    if coordinator is None or rank >= processes:
        got = "no coordinator" if coordinator is None else f"rank {rank}"
        raise InputError(f"got {processes} processes and {got}: need --coordinator HOST:PORT and a rank below that")
    from jax.experimental import multihost_utils

    try:
        jax.distributed.initialize(coordinator, processes, rank, heartbeat_timeout_seconds=HEARTBEAT_SECONDS)
        multihost_utils.sync_global_devices("fnode")  # now, while all of them are about to: gloo waits 30 s, no longer
    except RuntimeError as error:
        raise InputError(f"process {rank} of {processes} cannot reach {coordinator}: {str(error)[:200]}") from None


def leave(code: int) -> None:
    """Exit; a process that failed does not wait for the others, so that they notice at once."""
    if code and "jax" in sys.modules:
        import jax

        if jax.distributed.is_initialized():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
