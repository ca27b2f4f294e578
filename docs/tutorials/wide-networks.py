# %% [markdown]
# # Random networks are Gaussian
#
# Draw a network at random and look at one output for one input. The number is random, because the weights are. How it is
# distributed gets simpler with every neuron: at infinite width it is Gaussian, and `kernels` knows its covariance.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import finitewidth as fw

x = np.array([[1.0, 0.5], [-0.3, 0.8]])
net = fw.MLP(hidden=(64, 64), activation="relu")
print(net.C_b, net.C_W)
nngp, ntk = fw.kernels(net, x)
print(np.round(nngp, 4))

# %% [markdown]
# ```text
# [0. 0. 0.] [2. 2. 2.]
# [[1.25   0.5033]
#  [0.5033 0.73  ]]
# ```

# %% [markdown]
# No variances were given, so the weights are critical: variance $C_W/n$ with $C_W=2$ for ReLU, and no biases. The matrix
# says: over random networks, the outputs for the two inputs have variances 1.25 and 0.73 and covariance 0.50. No
# width occurs in it. Now draw real networks.


# %%
def outputs(width: int, draws: int, seed: int) -> np.ndarray:
    """Outputs of many networks for both inputs, (draws, 2)."""
    network = fw.MLP(hidden=(width, width), activation="relu")
    one = lambda key: network.apply(network.init(key, 2), x)[:, 0]
    return np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(seed), draws)))


draws = {width: outputs(width, 10_000, seed=width) for width in (4, 32)}
for width, z in draws.items():
    kurtosis = np.mean(z[:, 0] ** 4) / np.mean(z[:, 0] ** 2) ** 2 - 3
    exact = 3 * (1 + 5 / width) ** 2 - 3
    print(f"width {width:2d}: variance {np.var(z[:, 0]):.2f}, kurtosis {kurtosis:.1f}, exact {exact:.1f}")

# %% [markdown]
# ```text
# width  4: variance 1.23, kurtosis 13.6, exact 12.2
# width 32: variance 1.25, kurtosis 0.9, exact 1.0
# ```

# %% [markdown]
# The variance is 1.25 at every width. What changes is the shape: narrow networks have heavy tails, with an excess
# kurtosis of $3\prod_\ell(1+5/n_\ell)-3$ for ReLU, which is $30/n$ for two wide layers. That claim has an entry in the
# ledger: [relu-output-fourth-moment](claim:relu-output-fourth-moment). The picture shows it.

# %%
figure, axis = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
grid = np.linspace(-4, 4, 201)
axis.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), "k--", label="infinite width")
for width, colour in ((4, "#d1603d"), (32, "#1f5f8b")):
    z = draws[width][:, 0] / np.sqrt(nngp[0, 0])
    axis.hist(z, np.linspace(-4, 4, 62), density=True, histtype="step", color=colour, label=f"width {width}")
axis.set(xlabel="output, in standard deviations", ylabel="density")
axis.legend(frameon=False)
figure.savefig("tutorial-wide-networks.png", dpi=150)

# %% [markdown]
# [![Histograms of one output: width 4 is peaked with long tails, width 32 follows the Gaussian](../images/tutorial-wide-networks.png)](../images/tutorial-wide-networks.png)

# %% [markdown]
# **Try it.** Change the activation to `"tanh"` and the depth to ten layers. The kurtosis then grows with depth over width:
# [finite width](../guide/finite-width.md) predicts it. The next tutorial [trains the networks](trained-networks.md).
