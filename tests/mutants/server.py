"""Run tests again and again, each time in a fresh process that has the large libraries already.

The libraries are the arguments. Requests come from standard input, one line of JSON each, and each is
answered with pytest's exit code. The package under test is imported by none but the forked process, so every
run sees the files as they are.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import warnings

_LOOK_EVERY = 0.02


def serve() -> None:
    """Answer requests until standard input ends."""
    sys.path[0] = os.getcwd()
    for name in sys.argv[1:]:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        with warnings.catch_warnings():
            # JAX warns of forking, which is no danger before its first computation.
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            _run(request["arguments"], request["log"], request["write_bytecode"])
        print(_exit_code(child, request["seconds"]), flush=True)


def _run(arguments: list[str], log: str, write_bytecode: bool) -> None:
    """Run pytest and leave; its output goes to a file."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.dont_write_bytecode = not write_bytecode
    import pytest

    code = 3
    try:
        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(child: int, seconds: float) -> int:
    """Of a process, which is ended after so many seconds; -1 then."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_LOOK_EVERY)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


if __name__ == "__main__":
    serve()
