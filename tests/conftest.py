"""All tests compute in 64-bit, as the command does."""

import jax

jax.config.update("jax_enable_x64", True)
