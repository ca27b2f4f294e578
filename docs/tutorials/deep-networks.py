# %% [markdown]
# # A deep network that trains
#
# A network of fifty layers forgets its input, unless its weights have the right size. Which size is a property of the
# activation alone. This page finds it, shows what goes wrong elsewhere, and lets `tune` write the code.

# %%
import matplotlib.pyplot as plt
import numpy as np
import finitewidth as fw

point = fw.criticality("gelu")
print(f"{point.universality_class}: C_b = {point.C_b:.3f}, C_W = {point.C_W:.3f}")
x = np.random.default_rng(0).normal(size=(2, 20))
for C_b, C_W in ((0.0, 1.0), (point.C_b, point.C_W), (0.0, 3.0)):
    net = fw.MLP(hidden=(256,) * 50, activation="gelu", C_b=C_b, C_W=C_W)
    variance = np.asarray(fw.trajectory(net, x).nngp)[:, 0]
    print(
        f"C_b {C_b:.3f}, C_W {C_W:.3f}: variance in layer 1 {variance[0]:.2f}, in layer 50 {variance[49]:.1e}"
    )

# %% [markdown]
# ```text
# half-stable: C_b = 0.173, C_W = 1.983
# C_b 0.000, C_W 1.000: variance in layer 1 0.76, in layer 50 6.8e-30
# C_b 0.173, C_W 1.983: variance in layer 1 1.68, in layer 50 1.8e+00
# C_b 0.000, C_W 3.000: variance in layer 1 2.27, in layer 50 8.0e+08
# ```

# %% [markdown]
# Small weights: the signal is gone. Large weights: it explodes. In between there is one point where it crosses, and so do
# the gradients on their way back. What do the frameworks choose?

# %%
advice = fw.tune("gelu", depth=50, width=256)
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
colours = dict(zip(advice.signals, ("#1f5f8b", "#d1603d", "#2f7a58"), strict=True))
for name, signal in advice.signals.items():
    layers = np.arange(1, len(signal.variance) + 1)
    axes[0].semilogy(layers, signal.variance, color=colours[name], label=name)
    axes[1].semilogy(layers, signal.gradient, color=colours[name])
    print(f"{name:18s} gradient at layer 1: {signal.gradient[0]:.0e}")
axes[0].set(xlabel="layer", ylabel="variance of the signal")
axes[1].set(xlabel="layer", ylabel="squared gradient")
axes[0].legend(frameon=False, fontsize="small")
figure.savefig("tutorial-deep-networks.png", dpi=150)

# %% [markdown]
# ```text
# recommended        gradient at layer 1: 3e-01
# PyTorch nn.Linear  gradient at layer 1: 3e-53
# Flax nn.Dense      gradient at layer 1: 1e-29
# ```

# %% [markdown]
# [![Signal and gradient by layer: flat with the recommended weights, falling over tens of orders of magnitude with the defaults](../images/tutorial-deep-networks.png)](../images/tutorial-deep-networks.png)

# %% [markdown]
# A squared gradient of $10^{-50}$ in the first layer is no gradient. `advice.pytorch` and `advice.jax` are programs that
# start the network where it works, with the largest step that is stable:

# %%
print(*advice.pytorch.splitlines()[:4], sep="\n")
print("...")
print(f"largest stable step for one point: {advice.eta_max:.2g}")
print(advice.verdict)

# %% [markdown]
# ```text
# import torch
# from torch import nn
#
# widths = [256] + [256] * 49 + [1]
# ...
# largest stable step for one point: 2
# too deep for its width: fluctuations between initialisations dominate; widen it.
# ```

# %% [markdown]
# The verdict is about another limit: fluctuations between random networks are of order depth over width, and fifty layers
# of 256 have too much of both.
#
# **Try it.** `depth=8`: the verdict changes. Residual blocks change the rules: [tuning residual networks](../guide/tune-residual.md).
# [The theory](../theory/kernels-and-criticality.md) says where the critical point comes from.
