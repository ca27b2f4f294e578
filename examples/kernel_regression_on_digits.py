"""Handwritten digits by infinitely wide networks: accuracy and calibrated probabilities, nothing trained.

python examples/kernel_regression_on_digits.py
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from finitewidth import estimators

x, y = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(x / 16, y, test_size=0.4, random_state=0)

network = estimators.NTKClassifier(depth=3, activation="relu", ridge="auto").fit(x, y)
probability = network.predict_proba(x_test)
machine = SVC(C=10, gamma="scale").fit(x, y)

print(f"{len(x)} images to learn from, {len(x_test)} to recognise")
print(f"infinitely wide ReLU network: accuracy {network.score(x_test, y_test):.3f}")
print(f"support vector machine:       accuracy {machine.score(x_test, y_test):.3f}")
right_digit = probability[np.arange(len(y_test)), y_test]
print(f"mean log probability of the right digit: {np.log(right_digit).mean():.3f}")
for share in (0.5, 0.9, 0.99):
    sure = probability.max(axis=1) >= share
    right = probability.argmax(axis=1)[sure] == y_test[sure]
    print(
        f"{sure.mean():6.1%} of the images have a digit of probability {share} or more; "
        f"{right.mean():.1%} of these are right"
    )
