"""Networks of JAX are measured where PyTorch is not installed."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["torch"] = None
import jax, numpy as np, finitewidth as fw
net = fw.MLP((8,), "relu", n_out=2)
params = net.init(jax.random.key(0), 2)
x, y = np.eye(2), np.array([0, 1])
specimen = fw.measure.specimen(net, x, y, params=params)
print(specimen.value() > 0, len(specimen.look(np.ones((2, 2)))))
print(fw.measure.regions.piecewise_linear(net, 2, params=params).neurons)
"""


def test_jax_models_need_no_torch():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert found.stdout.split() == ["True", "2", "8"], found.stderr[-2000:]
