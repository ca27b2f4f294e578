"""Numbers that are worked out while JAX traces a function around them."""

from jax.core import eval_context

# Within `with outside_tracing():` known arrays are computed at once, by compiled functions as elsewhere.
# `jax.ensure_compile_time_eval` would run the inside of compiled functions one operation at a time, too.
outside_tracing = eval_context
