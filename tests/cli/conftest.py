"""Run the command the way a user does, inside this process."""

import sys
from typing import NamedTuple

import pytest

from finitewidth.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["finitewidth", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code or 0
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run
