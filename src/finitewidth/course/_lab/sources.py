"""Where claims come from: lectures with their dates, and the book they follow."""

ROBERTS = "Dan Roberts, The Principles of Deep Learning Theory, lecture of 13 January 2022"
DAY_2 = "Hyunin Lee, Deep Learning Theory, day 2: nearly-kernel methods, notes of 24 December 2023"
# The notes of the third day continue those of the second; they carry neither name nor date.
DAY_3 = "Deep Learning Theory, day 3, undated notes that continue Hyunin Lee's day 2"
IEMS_402 = "IEMS 402 Statistical Learning, Northwestern, lecture 14: Deep Learning Theory"
BOOK = "Roberts, Yaida and Hanin, The Principles of Deep Learning Theory"
BEYOND = "Beyond the lectures"

_ORF_543 = {
    "9/14": "networks at initialisation",
    "9/19": "tuning to criticality",
    "9/21": "networks and Gaussian processes",
    "7": "learning rates in the NTK regime",
    "pathologies": "pathologies of the NTK regime",
    "10/3": "the loss Hessian",
    "10/5": "classifiers",
    "10/10": "introduction to the NTK",
    "10/12": "training to zero loss in the NTK regime",
    "10/31": "kernels",
    "11/2": "quadratic models",
    "11/7": "large steps in quadratic models",
    "11/9": "implicit bias",
    "11/14": "implicit bias, continued",
    "11/16": "implicit bias of SGD",
    "11/28": "entropy and widths",
    "11/30": "path counting for ReLU networks",
    "12/5": "linear regions",
    "12/7": "Bayesian interpolation with linear networks",
}


def orf_543(lecture: str) -> str:
    """A lecture of ORF 543 by its date; the seventh lecture and the one after it have none."""
    title = _ORF_543[lecture]
    number = {"7": ", lecture 7", "pathologies": ", the lecture after lecture 7"}.get(lecture)
    return f"ORF 543 lecture notes{number or f', lecture of {lecture}'}, {title}"


SOURCES = (ROBERTS, DAY_2, DAY_3, IEMS_402, BOOK, *map(orf_543, _ORF_543))
