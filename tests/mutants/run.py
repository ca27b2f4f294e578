"""Change one formula at a time, and see that a test notices.

Every entry of the lists beside this file names a file of the package, a text in it, what replaces that text,
and tests that must fail then. The change is made in a copy of the project, never in the project itself.

    python tests/mutants/run.py                     all entries
    python tests/mutants/run.py -k ridge --jobs 2   those whose name or file contains "ridge", two at a time
    python tests/mutants/run.py study-unit          one, by its name
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = Path("src", "finitewidth")
# No test that is named in the lists takes longer, and a change may make a loop endless.
_SECONDS = 600
_LEFT_OUT = (".git", ".venv", "build", "site", "demo", "__pycache__", ".ruff_cache", ".pytest_cache")
_PASSED, _FAILED = 0, 1
# Imported once by the process that runs the tests, where they are installed; no thread starts on import.
LIBRARIES = (
    "pytest", "scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.sparse.linalg", "jax.numpy",
    "jax.scipy", "equinox", "optax.contrib", "jaxtyping", "beartype", "rich.progress", "sklearn.datasets",
    "sklearn.metrics", "sklearn.model_selection", "sklearn.utils.estimator_checks", "torch", "flax.linen",
)  # fmt: skip


class Mutant(NamedTuple):
    """One change of one formula.

    `file` is relative to the package; `old` occurs in it `count` times, and each of them becomes `new`;
    `tests` are pytest's names, of which at least one must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    count: int = 1

    def problem(self, root: Path) -> str | None:
        """Why the change cannot be made in the project under `root`; None when it can."""
        path = root / PACKAGE / self.file
        if not path.is_file():
            return f"{PACKAGE / self.file} does not exist."
        found = path.read_text(encoding="utf-8").count(self.old)
        if found != self.count:
            return f"{self.old!r} occurs {found} times in {self.file}, not {self.count}."
        if self.old == self.new:
            return "old and new are the same text."
        if not self.tests:
            return "no test is named that must fail."
        missing = [test for test in self.tests if not _exists(root, test)]
        return f"there is no test {missing[0]}." if missing else None


class Outcome(NamedTuple):
    """What became of one mutant: "killed", "SURVIVED", or a sentence that says why it could not be judged."""

    mutant: Mutant
    verdict: str
    seconds: float


def load(directory: Path = HERE) -> list[Mutant]:
    """All entries of the lists in a directory."""
    mutants = []
    for path in sorted(directory.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for entry in content["mutant"]:
            mutants.append(Mutant(**entry | {"tests": tuple(entry["tests"])}))
    twice = [name for name, count in Counter(m.name for m in mutants).items() if count > 1]
    if twice:
        raise ValueError(f"two mutants are called {twice[0]!r}.")
    return mutants


def _exists(root: Path, test: str) -> bool:
    """Whether a file defines the classes and functions of a test's name; parameters are not looked at."""
    file, *names = test.split("[")[0].split("::")
    if not (root / file).is_file():
        return False
    text = (root / file).read_text(encoding="utf-8")
    return all(f"def {name}(" in text or f"class {name}" in text for name in names)


class Copy:
    """A copy of the project in which formulas are changed and tests run."""

    def __init__(self, project: Path, directory: Path, cache: Path, libraries: Sequence[str]):
        self.root = directory
        shutil.copytree(project, directory, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(directory / "src"),
            # Compiled programs are found again by what they compute, so a changed formula is compiled anew.
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._log = directory.with_suffix(".log")
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), *libraries],
            cwd=self.root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        self._server.communicate()

    def pytest(self, tests: Sequence[str], *options: str, write_bytecode: bool) -> tuple[int, str]:
        """Exit code and output of tests; -1 when they took too long."""
        request = {
            "arguments": ["-q", "-p", "no:cacheprovider", "--assert=plain", *options, *tests],
            "log": str(self._log),
            "write_bytecode": write_bytecode,
            "seconds": _SECONDS,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        if code == -1:
            return code, f"the tests took longer than {_SECONDS} seconds"
        return code, self._log.read_text(encoding="utf-8", errors="replace")

    def judge(self, mutant: Mutant) -> Outcome:
        """Make the change, run its tests, undo the change."""
        begin = time.monotonic()
        path = self.root / PACKAGE / mutant.file
        original, written = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
        # Bytecode is matched with its source by the time of writing, in whole seconds.
        os.utime(path, (written.st_atime, written.st_mtime + 1000))
        try:
            code, output = self.pytest(mutant.tests, "-x", write_bytecode=False)
        finally:
            path.write_text(original, encoding="utf-8")
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))
        verdict = {_PASSED: "SURVIVED", _FAILED: "killed"}.get(code)
        if verdict is None:
            verdict = f"pytest ended with code {code}: {output.strip().splitlines()[-1]}"
        return Outcome(mutant, verdict, time.monotonic() - begin)


def failing_unchanged(copy: Copy, mutants: Sequence[Mutant]) -> Iterator[str]:
    """What does not pass in the project as it is, one process for each file of tests."""
    files: dict[str, set[str]] = {}
    for test in {test for mutant in mutants for test in mutant.tests}:
        files.setdefault(test.split("::")[0], set()).add(test)
    for tests in files.values():
        code, output = copy.pytest(sorted(tests), "--tb=line", write_bytecode=True)
        if code != _PASSED:
            yield output


def chosen(mutants: Sequence[Mutant], names: Sequence[str], part: str | None) -> list[Mutant]:
    """The mutants of these names, or whose name or file contains `part`; all of them without either."""
    known = {mutant.name for mutant in mutants}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"there is no mutant called {unknown[0]!r}.")
    return [
        mutant
        for mutant in mutants
        if (not names or mutant.name in names) and (part is None or part in f"{mutant.name} {mutant.file}")
    ]


def run(
    mutants: Sequence[Mutant],
    jobs: int,
    directory: Path,
    project: Path = ROOT,
    libraries: Sequence[str] = LIBRARIES,
) -> list[Outcome]:
    """Judge mutants, `jobs` at a time, each in a copy of its own; say how it goes."""
    for mutant in mutants:
        problem = mutant.problem(project)
        if problem:
            raise ValueError(f"{mutant.name}: {problem}")
    every = [
        Copy(project, directory / f"copy-{number}", directory / "compiled", libraries)
        for number in range(jobs)
    ]
    copies: Queue[Copy] = Queue()
    for copy in every:
        copies.put(copy)
    finished = 0

    def judge(mutant: Mutant) -> Outcome:
        nonlocal finished
        copy = copies.get()
        try:
            outcome = copy.judge(mutant)
        finally:
            copies.put(copy)
        finished += 1
        print(
            f"{finished:3d}/{len(mutants)} {outcome.seconds:5.1f} s  {mutant.name}: {outcome.verdict}",
            flush=True,
        )
        return outcome

    def check(part: Sequence[Mutant]) -> list[str]:
        copy = copies.get()
        try:
            return list(failing_unchanged(copy, part))
        finally:
            copies.put(copy)

    files = sorted({mutant.tests[0].split("::")[0] for mutant in mutants})
    shares = [
        [m for m in mutants if files.index(m.tests[0].split("::")[0]) % jobs == share]
        for share in range(jobs)
    ]
    try:
        with ThreadPoolExecutor(jobs) as pool:
            failures = [output for outputs in pool.map(check, shares) for output in outputs]
            if failures:
                raise ValueError("tests fail in the project as it is:\n" + "\n".join(failures))
            return list(pool.map(judge, mutants))
    finally:
        for copy in every:
            copy.close()


def main() -> int:
    """Run the lists; exit with 1 when a mutant survives or cannot be judged."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="mutants to run; all by default")
    parser.add_argument("-k", metavar="PART", help="only those whose name or file contains this")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default 1)")
    options = parser.parse_args()
    begin = time.monotonic()
    try:
        mutants = chosen(load(), options.names, options.k)
        with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
            outcomes = run(mutants, options.jobs, Path(directory))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    left = [outcome for outcome in outcomes if outcome.verdict != "killed"]
    minutes = (time.monotonic() - begin) / 60
    print(f"\n{len(outcomes) - len(left)} of {len(outcomes)} mutants killed in {minutes:.1f} minutes")
    for outcome in left:
        print(f"{outcome.mutant.name} ({outcome.mutant.file}): {outcome.verdict}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
