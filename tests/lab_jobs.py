"""Jobs for the lab's training process that tests can order to be slow, large or deadly."""

import os
import time


def jobs() -> dict:
    return {"count": count, "sleep": sleep, "grow": grow, "die": die, "wrong": wrong, "bug": bug, "pid": pid}


def count(stop, last, seconds):
    for i in range(last):
        time.sleep(seconds)
        yield i


def sleep(stop, seconds):
    time.sleep(seconds)
    yield "slept"


def grow(stop, megabytes):
    held = bytearray(megabytes * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(30)
    yield len(held)


def die(stop):
    os._exit(3)
    yield


def wrong(stop):
    raise ValueError("the table has no rows.")
    yield


def bug(stop):
    raise ZeroDivisionError("one over zero")
    yield


def pid(stop):
    yield os.getpid()
