"""Moves the clock under a dataset service: datasets.py PROGRAM LIBRARY

The load of the machine must be stored again within seconds after the clock was two days ahead, with and
without a restart in between, and no row may be lost.
"""

import datetime
import sys
import time

import service
from service import DAY_S, wait

# A measurement is stored every second. The rest allows for the delays of a loaded machine.
STORED_WITHIN_S = 5

# Number of measurements between two deletions of old rows. The test stores more than that.
PRUNE_EVERY = 60

LEAP_S = 2 * DAY_S


class Datasets(service.Service):
    def __init__(self, program, library):
        super().__init__(program, library, ["datasets", "serve", "--demo"])
        self.has_tag = False

    def answers(self):
        if not self.has_tag:
            self.ask("api/tags/acquire/", {"tag_name": "public"})
            self.has_tag = True
        return len(self.all_rows()) > 0

    def rows(self, bounds=""):
        """Returns the timestamps of the latest rows of machine_cpu."""
        path = f"api/rows/?dataset_name=machine_cpu&limit=1000&ordering=-timestamp{bounds}"
        return {row["timestamp"] for row in self.ask(path)["results"]}

    def all_rows(self):
        # Without a start, a page covers the day before the latest row. After a leap of two days, it
        # would not contain earlier rows.
        start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
        return self.rows(f"&start={start:%Y-%m-%dT%H:%M:%SZ}")

    def expect_new_row(self, what, seconds=STORED_WITHIN_S):
        """Waits for a new row, and checks that no earlier row is lost."""
        before, started = self.all_rows(), time.monotonic()
        wait(f"a row {what}", seconds, lambda: self.all_rows() - before)
        missing = before - self.all_rows()
        assert not missing, f"{what}: {len(missing)} of {len(before)} rows are gone"
        print(f"{what}: a new row after {time.monotonic() - started:.1f} s, {len(before)} kept")


def test(datasets):
    datasets.set_clock(0)
    datasets.start()
    # Old rows are deleted only after further measurements.
    wait("rows", 2 * PRUNE_EVERY, lambda: len(datasets.rows()) >= PRUNE_EVERY - 3)
    kept = datasets.rows()
    datasets.set_clock(LEAP_S)
    time.sleep(8)
    datasets.set_clock(0)
    datasets.expect_new_row("no longer two days ahead")
    assert kept <= datasets.rows(), "rows are gone"
    n_leaps = datasets.log().count("the clock leapt ahead")
    assert n_leaps == 1, f"{n_leaps} lines report one leap"

    datasets.stop()
    datasets.set_clock(LEAP_S)
    datasets.start()
    datasets.expect_new_row("started two days ahead")
    datasets.stop()
    datasets.set_clock(0)
    datasets.start()
    datasets.expect_new_row("started again with the right date")
    # Rows in the future must not hide the latest rows in a page without bounds.
    wait("the page of the newest rows", STORED_WITHIN_S, lambda: kept <= datasets.rows())
    n_warnings = datasets.log().count('"level":"warn"')
    assert n_warnings <= 5, f"{n_warnings} warnings"


service.run(Datasets(*sys.argv[1:]), test)
