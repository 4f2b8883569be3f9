"""All tests compute in 64-bit, as the command does, and compile quickly rather than well: most are small."""

import os

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers share the cores

import jax

jax.config.update("jax_enable_x64", True)
