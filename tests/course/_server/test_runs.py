"""The training process: stopped, hung up on, killed, too slow, too large, too many at once."""

import asyncio
import contextlib
import os
import time

import pytest

from finitewidth.course._server.reports import MOST, Reports
from finitewidth.course._server.runs import Busy, Limits, Runs
from lab_jobs import jobs


def play(story, **limits):
    """Run a story with a training process, which is gone afterwards."""

    async def main():
        runs = Runs(Limits(**limits), jobs)
        runs.start()
        try:
            return await story(runs)
        finally:
            runs.stop()

    return asyncio.run(main())


async def told(events) -> list[dict]:
    """All events but those that only say that the run is alive."""
    async with contextlib.aclosing(events) as source:
        return [event async for event in source if "alive" not in event]


async def first_piece(events) -> dict:
    """Read up to the first piece and hang up."""
    async with contextlib.aclosing(events) as source:
        async for event in source:
            if "piece" in event:
                return event
    raise AssertionError("no piece")


def test_pieces_arrive_in_order_and_a_result_is_kept():
    async def story(runs):
        first = await told(runs.events("count", 3, 0.0, key="a"))
        again = await told(runs.events("count", 3, 0.0, key="a"))
        await told(runs.events("count", 1, 0.0, key="b"))
        return first, again, list(runs.kept), runs.number

    first, again, kept, number = play(story, kept=1)
    pieces = [{"piece": 0}, {"piece": 1}, {"piece": 2}, {"end": "done"}]
    assert first == [{"started": True}, *pieces]
    assert again == pieces
    assert kept == ["b"]
    assert number == 2


def test_to_hang_up_is_to_stop_and_nothing_is_kept():
    async def story(runs):
        await first_piece(runs.events("count", 1000, 0.02, key="a"))
        began = time.monotonic()
        after = await told(runs.events("count", 1, 0.0))
        return after, time.monotonic() - began, dict(runs.kept)

    after, seconds, kept = play(story)
    assert after == [{"started": True}, {"piece": 0}, {"end": "done"}]
    assert seconds < 5
    assert kept == {}


def test_a_visitor_who_leaves_the_queue_does_not_block_it():
    async def story(runs):
        running = asyncio.create_task(told(runs.events("count", 30, 0.02)))
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(told(runs.events("count", 30, 0.02)))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        last = await told(runs.events("count", 1, 0.0))
        return await running, last, runs.waiting

    running, last, waiting = play(story)
    assert running[-1] == last[-1] == {"end": "done"}
    assert last[0] == {"waiting": 1}
    assert waiting == 0


def test_a_full_queue_says_so_at_once():
    async def story(runs):
        tasks = [asyncio.create_task(told(runs.events("count", 3, 0.05))) for _ in range(4)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = play(story, waiting=2)
    refused = [answer for answer in answers if isinstance(answer, Busy)]
    assert len(refused) == 1
    assert sum(answer[-1] == {"end": "done"} for answer in answers if isinstance(answer, list)) == 3


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ("die", "the training process ended unexpectedly."),
        ("wrong", "the table has no rows."),
        ("bug", "the run failed (ZeroDivisionError: one over zero)"),
    ],
)
def test_a_run_that_fails_is_told_and_the_next_one_works(job, sentence):
    async def story(runs):
        return await told(runs.events(job)), await told(runs.events("count", 1, 0.0))

    failed, after = play(story)
    assert failed == [{"started": True}, {"error": sentence}]
    assert after[-1] == {"end": "done"}


def test_a_run_is_stopped_after_its_time():
    async def story(runs):
        return await told(runs.events("count", 1000, 0.05, key="a")), dict(runs.kept)

    events, kept = play(story, seconds=0.4)
    assert events[-1] == {"end": "the run was stopped after 0.4 s."}
    assert 3 < len(events) < 30
    assert kept == {}


def test_a_run_that_does_not_stop_is_ended_with_its_process():
    async def story(runs):
        (before,) = [e["piece"] for e in await told(runs.events("pid")) if "piece" in e]
        events = await told(runs.events("sleep", 60))
        (after,) = [e["piece"] for e in await told(runs.events("pid")) if "piece" in e]
        return before, events, after

    before, events, after = play(story, seconds=0.3, grace=0.3)
    assert events[-1] == {"error": "the run took longer than 0.3 s and was ended."}
    assert before != after
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_a_hang_up_on_a_run_that_cannot_stop_ends_its_process():
    async def story(runs):
        task = asyncio.create_task(told(runs.events("sleep", 60)))
        await asyncio.sleep(0.3)
        task.cancel()
        began = time.monotonic()
        after = await told(runs.events("count", 1, 0.0))
        return after, time.monotonic() - began

    after, seconds = play(story, grace=0.3)
    assert after[-1] == {"end": "done"}
    assert seconds < 10


def test_memory_is_bounded():
    async def story(runs):
        return await told(runs.events("grow", 200)), await told(runs.events("count", 1, 0.0))

    events, after = play(story, memory=150 * 2**20)
    assert events[-1] == {"error": "the run needed more than 0.146 GB and was ended."}
    assert after[-1] == {"end": "done"}


def test_reports_are_bounded_and_grow_old():
    reports = Reports()
    names = [reports.add(f"page {i}").removeprefix("/report/") for i in range(MOST + 1)]
    assert reports.find(names[0]) is None
    assert reports.find(names[-1]) == f"page {MOST}"
    assert len(set(names)) == MOST + 1
    assert min(map(len, names)) >= 32
    old = Reports(seconds=-1.0)
    assert old.find(old.add("page").removeprefix("/report/")) is None
