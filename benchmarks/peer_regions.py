"""regioncam on networks in NPZ files, in an environment of its own: cells and CPU seconds as JSON."""

import json
import sys
import time

import numpy as np
import regioncam

TURNS = 3


def cells(layers, half_side):
    plane = regioncam.Regioncam(size=half_side)
    for number, (weight, bias) in enumerate(layers):
        plane.linear(weight, bias)
        if number < len(layers) - 1:
            plane.relu()
    return plane.num_faces


for path in sys.argv[1:]:
    stored = np.load(path)
    count = int(stored["layers"])
    layers = [
        (np.ascontiguousarray(stored[f"w{i}"].T, np.float32), stored[f"b{i}"].astype(np.float32))
        for i in range(count)
    ]
    seconds = []
    for _ in range(TURNS):
        start = time.process_time()
        found = cells(layers, float(stored["half_side"]))
        seconds.append(time.process_time() - start)
    print(json.dumps({"cells": found, "seconds": min(seconds)}))
