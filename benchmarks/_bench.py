"""What every benchmark shares: interleaved repeats, medians, a table or one JSON document."""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable


def one_core() -> None:
    """Keep this process on one core, where the system can: call it before JAX computes anything, whose threads then are
    one too."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def interleaved(*workers: Callable[[], object], repeats: int = 7) -> list[float]:
    """Median seconds of each worker; they take turns, so that a busy machine slows all of them alike."""
    times: list[list[float]] = [[] for _ in workers]
    for number in range(repeats):
        print(f"round {number + 1} of {repeats}", file=sys.stderr, flush=True)
        for worker, record in zip(workers, times, strict=True):
            began = time.perf_counter()
            worker()
            record.append(time.perf_counter() - began)
    return [statistics.median(record) for record in times]


def show(title: str, results: dict[str, dict], notes: list[str] = ()) -> None:
    """A table on stdout, or with `--json` one document `{name: {"ours", "peer", "ratio", "unit"}}`."""
    if "--json" in sys.argv:
        print(json.dumps(results, indent=2))
        return
    width = 1 + max(27, *map(len, results))
    print(title)
    print(f"{'':{width}}{'ours':>14}{'peer':>14}{'ratio':>9}")
    for name, result in results.items():
        unit = result["unit"]
        print(f"{name:{width}}{result['ours']:>11.4g} {unit:2}{result['peer']:>11.4g} {unit:2}{result['ratio']:>8.1f}x")
    for note in notes:
        print(note)


def result(ours: float, peer: float, unit: str) -> dict:
    """One row, where less is better."""
    return {"ours": ours, "peer": peer, "ratio": peer / ours, "unit": unit}
