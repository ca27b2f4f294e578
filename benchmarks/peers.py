"""Peers to compare with, each pinned in an environment of its own under `benchmarks/.peers`."""

import subprocess
import sys
import venv
from pathlib import Path

_HOME = Path(__file__).parent / ".peers"

REQUIREMENTS = {
    "neural-tangents": (
        "neural-tangents==0.6.5",
        "jax==0.4.30",
        "jaxlib==0.4.30",
        "numpy<2",
        "scipy<1.14",
    ),
    "curvature": ("curvlinops-for-pytorch==3.0.1", "PyHessian==0.1", "torch==2.13.0"),
    "regioncam": ("regioncam==0.5.2", "numpy>=2,<3"),
}


def peer_python(name: str) -> Path:
    """The interpreter of a peer's environment, which is built on first use."""
    home = _HOME / name
    python, complete = home / "bin" / "python", home / "complete"
    wanted = "\n".join(REQUIREMENTS[name])
    if complete.exists() and complete.read_text() == wanted:
        return python
    print(f"installing {name} into {home}", file=sys.stderr)
    venv.create(home, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS[name]], check=True)
    complete.write_text(wanted)
    return python
