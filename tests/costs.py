"""What tests cost, and which are slow: `make quick` leaves those out.

    python -m pytest -n 2 --dist loadfile --costs=build/costs.json      the whole suite, CPU seconds kept
    python tests/costs.py build/costs.json                              slow.txt from them

The cheapest tests of every room are quick, up to the room's share of 200 CPU seconds; the others are slow.
"""

import collections
import json
import os
import sys
from pathlib import Path

import pytest

SLOW = Path(__file__).with_name("slow.txt")
_QUICK_SECONDS = 200.0
_COSTS: dict[str, float] = collections.defaultdict(float)


def function_of(nodeid: str) -> str:
    """A test without its case."""
    return nodeid.split("[")[0]


def slow_tests() -> frozenset[str]:
    """The tests that `make quick` leaves out."""
    return frozenset(SLOW.read_text(encoding="utf-8").splitlines())


def pytest_addoption(parser):
    parser.addoption("--costs", type=Path, help="write the CPU seconds of every test to this file")


def _cpu() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    before = _cpu()
    try:
        return (yield)
    finally:
        item.user_properties.append(("setup_cpu", _cpu() - before))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = _cpu()
    try:
        return (yield)
    finally:
        item.user_properties.append(("call_cpu", _cpu() - before))


def pytest_runtest_logreport(report):
    if report.when == "call":
        _COSTS[function_of(report.nodeid)] += sum(
            seconds for name, seconds in report.user_properties if name in ("setup_cpu", "call_cpu")
        )


def pytest_sessionfinish(session):
    path = session.config.getoption("--costs", None)
    if path is not None and not hasattr(session.config, "workerinput"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({name: round(cost, 2) for name, cost in sorted(_COSTS.items())}, indent=0))


def room_of(name: str) -> str:
    """The folder of a test below `tests/`, of the course its topic."""
    parts = name.split("/")
    return "/".join(parts[1:3] if parts[1] == "course" else parts[1:2])


def slow_among(costs: dict[str, float]) -> list[str]:
    """All but the cheapest tests of every room, which fill its share of the quick seconds."""
    rooms = collections.defaultdict(list)
    for name, cost in costs.items():
        rooms[room_of(name)].append((cost, name))
    total, slow = len(costs), []
    for tests in rooms.values():
        left = _QUICK_SECONDS * len(tests) / total
        for cost, name in sorted(tests):
            left -= cost
            if left < 0:
                slow.append(name)
    return sorted(slow)


if __name__ == "__main__":
    measured = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    SLOW.write_text("".join(f"{name}\n" for name in slow_among(measured)), encoding="utf-8")
