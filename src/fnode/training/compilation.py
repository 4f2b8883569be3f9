"""Compiling what runs long well, and how long compiling takes: JAX tells whenever it does."""

from collections.abc import Callable

import jax

STAGES = ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration")
LONG = 5000  # steps of training: about as many as repay code that is faster by a tenth
# Adam's update is most of a step of FNODE at batch 1: with vectors twice as wide it takes about half as long.
FASTER: dict[str, str | bool] = {"xla_cpu_use_fusion_emitters": True, "xla_cpu_prefer_vector_width": "512"}


def compiled(function: Callable, *arguments, steps: int) -> Callable:
    """The program of a function that will do so many steps of training: the more, the better it is compiled."""
    return jax.jit(function).lower(*arguments).compile(FASTER if steps >= LONG else None)


class CompileClock:
    """Inside its block, `seconds` adds up what is spent on turning programs into machine code."""

    def __init__(self):
        self.seconds = 0.0
        self.programs: list[str] = []

    def __enter__(self) -> "CompileClock":
        jax.monitoring.register_event_duration_secs_listener(self._hear)
        return self

    def __exit__(self, *failure) -> None:
        jax.monitoring.unregister_event_duration_listener(self._hear)

    def _hear(self, event: str, duration_secs: float, **about: str | int) -> None:
        if event in STAGES:
            self.seconds += duration_secs
        if event == STAGES[-1]:
            self.programs.append(str(about.get("fun_name")))
