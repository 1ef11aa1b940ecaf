"""Tests a stream over a restart of the service, which then has another port."""

import queue
import threading

import triptych
from triptych import _datasets

WITHIN_S = 180


def row(number):
    return {"timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z", "n": number}


def rows_arrive_once_over_a_restart(stack):
    triptych.insert("feed", [row(number) for number in range(3)], create=True)
    old = triptych.Client().services().datasets
    arrived = queue.Queue()

    def read(**options):
        try:
            for one in triptych.follow("feed", **options):
                arrived.put(one["n"])
        except triptych.TriptychError as error:
            arrived.put(error)

    def take(n_rows):
        return [arrived.get(timeout=WITHIN_S) for _ in range(n_rows)]

    threading.Thread(target=read, kwargs={"last": 2}, daemon=True).start()
    assert take(2) == [1, 2]
    triptych.insert("feed", [row(3), row(4)])
    assert take(2) == [3, 4]
    stack.stop()
    stack.start()
    assert triptych.Client().services().datasets != old
    # More rows than a replay has, and then a late row.
    triptych.insert("feed", [row(number) for number in range(5, 255)])
    triptych.insert("feed", [{"timestamp": "2025-12-31", "n": 255}])
    assert sorted(take(251)) == list(range(5, 256))
    triptych.insert("feed", [row(256)])
    assert take(1) == [256]
    assert arrived.empty()
    since = triptych.follow("feed", since="2026-01-01T00:01:00")
    assert [next(since)["n"] for _ in range(196)] == [*range(60, 255), 256]


def changes_tell_deletions_and_corrections(_):
    triptych.insert("changes", [row(number) for number in range(3)], create=True)
    follower = triptych.follow("changes", last=1, changes=True)
    assert next(follower)["row"]["n"] == 2
    triptych.insert("changes", [row(3)])
    assert next(follower)["event"] == "data"
    triptych.insert("changes", [{**row(1), "n": 9}])
    correction = next(follower)
    assert (correction["event"], correction["row"]["n"]) == ("correction", 9)
    datasets = triptych.Client().datasets
    number = datasets.get_json("/datasets/", {"search": "changes"})["results"][0]["id"]
    first, last = row(1)["timestamp"], row(3)["timestamp"]
    datasets.call("DELETE", "/rows/", {"dataset": number, "start": first, "end": last})
    deletion = next(follower)
    assert deletion["event"] == "deletion"
    assert [deletion[end].second for end in ("start", "end")] == [1, 3]
    triptych.insert("changes", [{**row(1), "n": 9}])
    again = next(follower)
    assert (again["event"], again["row"]["n"]) == ("data", 9)


def changed_rows_are_recognized(_):
    follower = _datasets._Follower(None, {}, _datasets.EARLIEST, False)
    at, is_new = _datasets.EARLIEST, []
    for _ in range(2):
        yielded = {"timestamp": at, "n": 1}
        is_new.append(follower._remember(yielded))
        yielded.pop("n")  # as a caller can
    assert is_new == [True, False]
