# %% [markdown]
# # The catapult
#
# Gradient descent on a linear model diverges when the step times the curvature is above 2. A network with one hidden layer
# can do something else: its loss shoots up, its weights shrink, and it converges to a flatter place. On one training point
# the whole story is an exact recursion in two numbers.

# %%
import matplotlib.pyplot as plt
import numpy as np
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork, Phase

width = 1000
edges = np.array([1.0, 1.9, 2.5, 3.5, 3.9, 4.2])
found = OnePointNetwork.of_width(width).phases(edges)
for edge, phase in zip(edges, found.phase, strict=True):
    print(f"step times curvature {edge}: {Phase(phase).name.lower()}")

# %% [markdown]
# ```text
# step times curvature 1.0: lazy
# step times curvature 1.9: lazy
# step times curvature 2.5: catapult
# step times curvature 3.5: catapult
# step times curvature 3.9: catapult
# step times curvature 4.2: divergent
# ```

# %% [markdown]
# The network is $f=\frac1{\sqrt m}\sum_iv_iu_ix$ with label 0. Its curvature is $\lambda=(|u|^2+|v|^2)\,x^2/m$. Here is the same
# training without any theory: weights, gradients, and a loop. Its $u$ and $v$ are chosen so that the output at the start
# is 1 and the curvature is 1, as in the recursion.


# %%
def descend(eta: float, steps: int) -> np.ndarray:
    """Losses of gradient descent on the weights of the network."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, width))
    v -= u * (u @ v) / (u @ u)
    u, v = (w / np.linalg.norm(w) * np.sqrt(width / 2) for w in (u, v))
    # Turn v towards u until the output is one. The curvature stays.
    cosine = 2 / np.sqrt(width)
    v = cosine * u + np.sqrt(1 - cosine**2) * v
    losses = []
    for _ in range(steps + 1):
        f = u @ v / np.sqrt(width)
        losses.append(f**2 / 2)
        u, v = u - eta * f * v / np.sqrt(width), v - eta * f * u / np.sqrt(width)
    return np.array(losses)


path = OnePointNetwork.of_width(width).descend(eta=3.0, steps=30)
real = descend(eta=3.0, steps=30)
print(f"largest loss {real.max():.1f}, predicted {path.losses.max():.1f}")
print("all losses agree to nine digits:", np.allclose(real, path.losses, rtol=1e-9))
print(f"step times curvature: {path.sharpness[0]:.1f}, at the end {path.sharpness[-1]:.2f}")

# %% [markdown]
# ```text
# largest loss 46.4, predicted 46.4
# all losses agree to nine digits: True
# step times curvature: 3.0, at the end 0.18
# ```

# %%
figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
for eta, colour in ((1.5, "#2f7a58"), (2.5, "#1f5f8b"), (3.5, "#d1603d")):
    path = OnePointNetwork.of_width(width).descend(eta=eta, steps=16)
    axes[0].semilogy(path.losses, color=colour)
    axes[0].semilogy(descend(eta, 16), "o", color=colour, markersize=3)
    axes[1].plot(path.sharpness, color=colour, label=f"starts at {eta}")
axes[1].axhline(2, color="k", linestyle=":", linewidth=1)
axes[0].set(xlabel="step", ylabel="loss", ylim=(1e-8, 1e3))
axes[1].set(xlabel="step", ylabel="step times curvature")
axes[1].legend(frameon=False, fontsize="small")
figure.savefig("tutorial-catapult.png", dpi=150)

# %% [markdown]
# [![Loss and curvature for three steps: the two above the limit shoot up first and end at a lower curvature](../images/tutorial-catapult.png)](../images/tutorial-catapult.png)

# %% [markdown]
# Lines are the recursion, points the trained weights. Above 2 the loss grows until it is as large as the width; by then
# the weights have shrunk, and with them the curvature. Above 4 nothing stops it.
#
# **Try it.** Change `width`: the top of the loss grows with it, and comes later by the logarithm. The claim is
# [catapult-time-and-height](claim:catapult-time-and-height). Networks with real ReLU gates, several points and other
# losses are in the [guide](../guide/large-learning-rates.md).
