"""Measures the history of a large topic: 1 000 epochs of 16 actors as a DataFrame, in one request.

    python figures.py path/to/triptych

The epochs are copies of one that a local stack closed.
"""

import json
import sqlite3
import sys
import time

import triptych
from stack import Stack

N_EPOCHS, N_ACTORS, N_TIMES = 1000, 16, 7
TABLES = ("epochs", "bundles", "losses", "submissions")
SETTINGS = {"metadata": "large", "dataset": "synthetic_btcusd", "column": "close", "horizon_seconds": 60}


def copy_epochs(path, topic):
    """Fills `topic` with copies of the latest epoch of topic 1 whose truth is known."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    (nonce,) = connection.execute("SELECT max(nonce) FROM losses WHERE topic_id = 1").fetchone()
    found = {
        table: [dict(row) for row in connection.execute(f"SELECT * FROM {table} WHERE topic_id = 1 AND nonce = ?", [nonce])]
        for table in TABLES
    }
    (bundle,), (losses,) = found["bundles"], found["losses"]
    record, shares, lost = (json.loads(text) for text in (bundle["record"], bundle["shares"], losses["record"]))
    values = record["network_inferences"]
    worker = values["inferer_values"][0]["worker"]
    for number in range(N_ACTORS - len(values["inferer_values"]) - len(values["forecaster_values"])):
        another = f"{worker[:-2]}q{number}"
        values["inferer_values"].append({**values["inferer_values"][0], "worker": another})
        for by_worker in (shares["inferer"], lost["inferer"], lost["one_out_inferer"]):
            by_worker[another] = by_worker[worker]
        submission = next(row for row in found["submissions"] if row["worker"] == worker)
        found["submissions"].append({**submission, "worker": another})
    bundle["shares"], losses["record"] = json.dumps(shares), json.dumps(lost)
    for number in range(N_EPOCHS):
        nonce = values["nonce"] = str(1 + 12 * number)
        bundle["record"] = json.dumps(record)
        for table, rows in found.items():
            for row in rows:
                row |= {"topic_id": topic, "nonce": int(nonce)}
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", [*row.values()])
    connection.commit()
    connection.close()


def main(program):
    """Prints the median of several requests in seconds."""
    stack = Stack(program)
    try:
        stack.start()
        while not len(triptych.history(1)) or triptych.history(1)["loss"].isna().all():
            time.sleep(1)
        inference = triptych.Client().inference
        topic = int(inference.send_json("POST", "/api/v1/topics", SETTINGS)["topic"]["id"])
        inference.send_json("PUT", f"/api/v1/topics/{topic}/active", {"active": False})
        stack.stop()
        copy_epochs(stack.path / "stack/inference.db", topic)
        stack.start()
        took = []
        for _ in range(N_TIMES):
            began = time.perf_counter()
            frame = triptych.history(topic, epochs=N_EPOCHS)
            took.append(time.perf_counter() - began)
        assert frame.groupby("nonce").size().tolist() == [N_ACTORS] * N_EPOCHS, frame
        print(f"history: {N_EPOCHS} epochs of {N_ACTORS} actors in {sorted(took)[N_TIMES // 2]:.3f} s")
    finally:
        stack.close()


if __name__ == "__main__":
    main(sys.argv[1])
