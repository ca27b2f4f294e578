# %% [markdown]
# # What trained networks will say
#
# Two networks that start from different random weights learn two different functions from the same data. Here is their
# distribution $p(f^\star)$, computed before any network is trained, and then a look at real ones.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import finitewidth as fw

x = np.array([-1.6, -1.1, -0.5, 0.6, 1.2])[:, None]
y = np.sin(2 * x)
grid = np.linspace(-2, 2, 61)[:, None]

net = fw.MLP(hidden=(256, 256), activation="erf", C_b=0.3, C_W=2.5)
law = fw.predict(net, x, y, grid)
print(law.mean.shape, law.std.shape)
gap, near = np.argmin(np.abs(grid[:, 0])), np.argmin(np.abs(grid[:, 0] + 1.1))
print(f"spread at 0, between the points: {law.std[gap]:.2f}; at -1.1, on a point: {law.std[near]:.2f}")

# %% [markdown]
# ```text
# (61, 1) (61,)
# spread at 0, between the points: 0.45; at -1.1, on a point: 0.00
# ```

# %% [markdown]
# `law.mean` is the average of all networks that could be trained, `law.std` how much they differ. On a training point they
# agree; between points each goes its own way. Train sixteen of them by gradient descent until nothing is left to learn,
# and compare.

# %%
eta = float(1 / np.linalg.eigvalsh(fw.kernels(net, x).ntk)[-1])  # half the largest stable step
ensemble = fw.train_ensemble(net, jax.random.key(0), 16, x, y, grid, steps=1000, learning_rate=eta)
trained = np.asarray(ensemble.outputs)[..., 0]
spread = trained[:, gap].std(ddof=1)
print(f"spread at 0 of {len(trained)} networks: {spread:.2f}, predicted {law.std[gap]:.2f}")
print(f"their average at 0: {trained[:, gap].mean():.2f}, predicted {law.mean[gap, 0]:.2f}")

# %% [markdown]
# ```text
# spread at 0 of 16 networks: 0.45, predicted 0.45
# their average at 0: 0.24, predicted 0.36
# ```

# %% [markdown]
# The average of sixteen networks has an error of $0.45/4$ at this place, so that 0.24 and 0.36 agree.

# %%
figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
low, high = law.mean[:, 0] - 2 * law.std, law.mean[:, 0] + 2 * law.std
axis.fill_between(grid[:, 0], low, high, color="#1f5f8b", alpha=0.2, label="predicted: mean ± 2 std")
axis.plot(grid[:, 0], law.mean[:, 0], color="#1f5f8b")
axis.plot(grid[:, 0], trained[:8].T, color="#d1603d", linewidth=0.7, alpha=0.8)
axis.plot([], [], color="#d1603d", linewidth=0.7, label="trained networks")
axis.plot(x[:, 0], y[:, 0], "ko", markersize=5, label="data")
axis.set(xlabel="input", ylabel="output")
axis.legend(frameon=False, fontsize="small")
figure.savefig("tutorial-trained-networks.png", dpi=150)

# %% [markdown]
# [![A blue band with orange curves of trained networks in it, all through five black points](../images/tutorial-trained-networks.png)](../images/tutorial-trained-networks.png)

# %% [markdown]
# At the start the networks differ everywhere. Training makes them agree on the points within a few steps, and between the
# points only as far as the data reach. A time is an argument, not another training:

# %%
for steps in (0, 10, 100, 1000):
    early = fw.predict(net, x, y, grid, fw.GradientDescent(eta=eta, steps=steps))
    print(f"{steps:4d} steps: spread at 0 {early.std[gap]:.2f}, at -1.1 {early.std[near]:.2f}")

# %% [markdown]
# ```text
#    0 steps: spread at 0 1.19, at -1.1 1.33
#   10 steps: spread at 0 0.54, at -1.1 0.07
#  100 steps: spread at 0 0.46, at -1.1 0.03
# 1000 steps: spread at 0 0.45, at -1.1 0.00
# ```

# %% [markdown]
# **Try it.** Lower the width to 16: real networks leave the band a little, because the prediction is for infinite width.
# `order=1` computes [the first correction](../guide/finite-width-training.md). For a table of your own there is
# [one command](../guide/predict.md).
