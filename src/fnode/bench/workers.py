"""Processes that compute cells side by side, each on a core of its own."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from threadpoolctl import threadpool_limits

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextlib.contextmanager
def local_workers(count: int, prepare: Callable[[], None]) -> Iterator[concurrent.futures.Executor]:
    """An executor of `count` processes; each calls `prepare` before its first cell.

    A worker has one thread for linear algebra and one core, so that workers do not fight for them. When the block is
    left by an interrupt or an error, workers are ended at once.
    """
    context, available = multiprocessing.get_context("spawn"), cores()
    free = context.SimpleQueue()
    for number in range(count):
        free.put(available[number % len(available)])
    before = set(multiprocessing.active_children())
    executor = concurrent.futures.ProcessPoolExecutor(count, context, _begin, (free, prepare))
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        raise
    executor.shutdown()


def _begin(free, prepare: Callable[[], None]) -> None:
    core = free.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the command decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    prepare()


def _end_with(parent: int) -> None:
    """A command that was killed cannot end its workers: they notice and end themselves."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
