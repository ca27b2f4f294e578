"""The side of neural-tangents in the comparison of architectures; runs in its own environment."""

import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax
from peer_kernels import versions
from turns import serve

jax.config.update("jax_enable_x64", True)
warnings.filterwarnings("ignore", message="`FanIn` layers assume")
_CHANNELS = 64
job = {}


def dense(entry):
    return stax.Dense(_CHANNELS, W_std=entry["C_W"] ** 0.5, b_std=entry["C_b"] ** 0.5)


def activation(entry):
    return {"relu": stax.Relu, "gelu": stax.Gelu, "erf": stax.Erf}[entry["name"]]()


def residual(entry):
    """The factor of the branch goes into its last weights, which costs the peer nothing."""
    if entry["alpha"] != 1:
        raise ValueError("the peer's residual blocks have alpha = 1.")
    *first, last = entry["body"]
    square = entry["beta"] ** 2
    scale = "C_OV" if last["layer"] == "Attention" else "C_W"
    body = serial([*first, {**last, scale: square * last[scale], "C_b": square * last["C_b"]}])
    around = serial(entry["shortcut"]) if entry["shortcut"] else stax.Identity()
    return stax.serial(stax.FanOut(2), stax.parallel(around, body), stax.FanInSum())


def repeat(entry):
    return serial(entry["body"] * entry["times"])


def conv(entry):
    std = {"W_std": entry["C_W"] ** 0.5, "b_std": entry["C_b"] ** 0.5}
    return stax.Conv(_CHANNELS, entry["filter"], entry["strides"], entry["padding"], **std)


def attention(entry):
    """Logits divided by the width of a head, keys and queries tied: what the peer calls linear scaling."""
    if (entry["kind"], entry["scaling"]) != ("softmax", "linear"):
        raise ValueError("the peer's attention is timed with softmax and linear scaling.")
    return stax.GlobalSelfAttention(
        _CHANNELS,
        n_chan_key=8,
        n_chan_val=8,
        n_heads=8,
        linear_scaling=True,
        W_key_std=entry["C_QK"] ** 0.5,
        W_query_std=entry["C_QK"] ** 0.5,
        W_value_std=entry["C_OV"] ** 0.25,
        W_out_std=entry["C_OV"] ** 0.25,
        b_std=entry["C_b"] ** 0.5,
    )


LAYERS = {
    "Conv": conv,
    "Attention": attention,
    "Flatten": lambda entry: stax.Flatten(),
    "GlobalAvgPool": lambda entry: stax.GlobalAvgPool(),
    "Dense": dense,
    "Activation": activation,
    "Residual": residual,
    "Repeat": repeat,
    "LayerNorm": lambda entry: stax.LayerNorm(axis=-1),
}


def serial(spec):
    """The peer's network for a list of layers."""
    return stax.serial(*(LAYERS[entry["layer"]](entry) for entry in spec))


def prepare(spec, x):
    """Describe the next job and warm up the back end, but not the job itself."""
    inputs = jnp.asarray(np.load(x))
    kernel = serial(spec)[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    jax.block_until_ready(jnp.sin(inputs))
    job["run"] = lambda: compiled(inputs)


def run():
    """Seconds that the job takes, on the clock and of all threads of this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    job["result"] = jax.block_until_ready(job["run"]())
    return {"clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}


def save(path):
    """Store the result of the last run."""
    np.savez(path, nngp=job["result"].nngp, ntk=job["result"].ntk)


if __name__ == "__main__":
    serve({f.__name__: f for f in (prepare, run, save, versions)})
