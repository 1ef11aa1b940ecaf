"""Moves the clock under an inference service: inference.py PROGRAM LIBRARY

Epochs must continue within the time of two epochs after the clock was corrected by a day, and while and after
it is two days ahead, with and without a restart.
"""

import sys
import time

import service
from service import DAY_S, wait

BLOCK_MS = 100
EPOCH_BLOCKS = 12

# Duration of two epochs, and the delays of a loaded machine.
TWO_EPOCHS_S = 2 * EPOCH_BLOCKS * BLOCK_MS / 1000 + 1.5


class Inference(service.Service):
    def __init__(self, program, library):
        arguments = ["inference", "serve", "--demo", "--block-time-ms", str(BLOCK_MS)]
        # Nothing listens at these addresses, so epochs open and close without inferences.
        arguments += ["--head", "http://127.0.0.1:1", "--datasets", "http://127.0.0.1:1/api"]
        super().__init__(program, library, arguments)

    def answers(self):
        return self.nonce() > 0

    def nonce(self):
        """Returns the latest epoch of topic 1."""
        return int(self.ask("emissions/v10/topics/1")["topic"]["epoch_last_ended"])

    def expect_next_epoch(self, what):
        before, started = self.nonce(), time.monotonic()
        wait(f"the next epoch {what}", TWO_EPOCHS_S, lambda: self.nonce() > before)
        print(f"{what}: the next epoch after {time.monotonic() - started:.1f} s")


def test(inference):
    inference.set_clock(-DAY_S)
    inference.start()
    inference.expect_next_epoch("a day behind")
    inference.set_clock(0)
    inference.expect_next_epoch("set right by a day")
    inference.set_clock(2 * DAY_S)
    inference.expect_next_epoch("two days ahead")
    inference.set_clock(0)
    inference.expect_next_epoch("no longer two days ahead")
    inference.stop()
    inference.start()
    inference.expect_next_epoch("after a restart")
    inference.stop()
    inference.set_clock(2 * DAY_S)
    inference.start()
    inference.expect_next_epoch("started two days ahead")
    inference.stop()
    inference.set_clock(0)
    inference.start()
    inference.expect_next_epoch("started again with the right date")
    n_behind = inference.log().count("the clock is behind the latest epoch")
    assert n_behind == 1, f"{n_behind} lines report a start with an earlier date"


service.run(Inference(*sys.argv[1:]), test)
