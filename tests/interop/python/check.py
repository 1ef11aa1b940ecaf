"""Tests the Python package with a local stack of the real program.

    python check.py path/to/triptych [name of a test]…
"""

import sys
import time

import errors
import inference
import inserts
import one_liners
import reads
import stream
from stack import Stack

# The order matters: the last two tests check the submissions of `worker_submits`.
TESTS = [
    reads.doctests_pass,
    errors.missing_stack_is_explained,
    errors.configuration_is_found,
    inference.worker_submits,
    reads.rows_are_frames_of_three_libraries,
    reads.times_without_a_zone_are_in_utc,
    reads.empty_range_has_columns,
    errors.refusals_are_explained,
    errors.wrong_services_are_explained,
    inserts.frames_are_stored_and_read_back,
    inserts.dataset_of_a_shared_name_is_that_of_reads,
    inserts.missing_values_are_left_out,
    inserts.integers_and_booleans_are_exact_next_to_missing_values,
    inserts.unfit_frames_are_rejected,
    inserts.rejected_frames_create_no_dataset,
    inserts.values_of_another_type_create_no_columns,
    inserts.duplicate_timestamps_are_rejected,
    inserts.unreadable_frames_are_explained,
    inserts.less_common_types_are_stored,
    inserts.digits_are_kept_or_rejected,
    inference.functions_run_on_workers,
    inference.history_agrees_with_other_queries,
    inference.backtest_agrees_with_the_command,
    inference.answers_of_a_backtest_are_checked_as_by_the_service,
    inference.frames_have_their_columns_without_rows_and_values,
    inference.models_of_a_backtest_do_not_affect_each_other,
    inference.rows_of_a_backtest_share_no_memory_with_later_rows,
    inference.invalid_backtests_are_explained,
    one_liners.readme_runs,
    one_liners.readme_of_the_package_runs,
    stream.rows_arrive_once_over_a_restart,
    stream.changes_tell_deletions_and_corrections,
    stream.changed_rows_are_recognized,
    inference.worker_continues_after_a_restart,
    inference.worker_is_ranked,
]


def main(program, names):
    """Runs the tests; returns the exit code."""
    unknown = set(names) - {test.__name__ for test in TESTS}
    if unknown:
        print(f"no test is called {', '.join(unknown)}: there are {', '.join(t.__name__ for t in TESTS)}")
        return 2
    if any(name.startswith("worker_") for name in names):
        names = [*names, "worker_submits"]
    stack = Stack(program)
    try:
        for test in TESTS:
            if names and test.__name__ not in names:
                continue
            if test not in (reads.doctests_pass, errors.missing_stack_is_explained) and not stack.process:
                stack.start()
            started = time.monotonic()
            test(stack)
            print(f"python: {time.monotonic() - started:5.1f} s  {test.__name__}", flush=True)
    except BaseException:
        print(stack.log()[-4000:] if stack.process else "")
        raise
    finally:
        stack.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
