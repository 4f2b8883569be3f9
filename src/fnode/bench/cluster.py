"""Cells on the workers of a dask cluster: on other machines, or on this one when no cluster is named."""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Iterator

from fnode.errors import InputError

LOCAL = "local"  # the address of a cluster that is started here and ends with the run
PATIENCE = "30s"  # for a scheduler to answer


@contextlib.contextmanager
def cluster_workers(
    address: str, prepare: Callable[[], None], workers: int | None = None
) -> Iterator[concurrent.futures.Executor]:
    """An executor whose work is done by the workers of the scheduler at `address`.

    A worker calls `prepare` before its work. Work of a worker that dies is done again by another; only work on which
    several workers died is given up. `workers` is for a local cluster: one process per core by
    default.
    """
    try:
        import distributed
    except ModuleNotFoundError:
        raise InputError("a cluster needs dask: pip install 'fnode[cluster]'") from None

    with contextlib.ExitStack() as stack:
        if address == LOCAL:
            number = workers or len(os.sched_getaffinity(0))
            here = distributed.LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=":0")
            stack.enter_context(here)
            address = here.scheduler_address
        try:
            client = stack.enter_context(distributed.Client(address, timeout=PATIENCE))
        except (OSError, ValueError) as error:
            raise InputError(
                f"no scheduler at {address}: start one with `dask scheduler`, or give --scheduler {LOCAL} ({error})"
            ) from None
        yield Prepared(prepare, client.get_executor(pure=False))


class Prepared(concurrent.futures.Executor):
    """An executor that has every worker, also one that joined late, prepare itself before its work."""

    def __init__(self, prepare: Callable[[], None], workers: concurrent.futures.Executor):
        self.prepare, self.workers = prepare, workers

    def submit(self, fn, /, *args, **kwargs):
        return self.workers.submit(_after, self.prepare, fn, *args, **kwargs)


def _after(prepare: Callable[[], None], work: Callable, *args, **kwargs):
    prepare()
    return work(*args, **kwargs)
