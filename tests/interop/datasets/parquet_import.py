"""Files of pyarrow, polars and DuckDB with all their options: each is imported correctly, or refused with the name
of the column before its first row is stored."""

import json
import subprocess
import tempfile

import parquet_files
from parquet_files import N, text


def check(service):
    counts = {"read": 0, "refused": 0}
    failures = []
    with tempfile.TemporaryDirectory(prefix="interop-parquet-") as folder:
        for number, (file, path) in enumerate(parquet_files.write_all(folder)):
            try:
                if isinstance(file.want, list):
                    refused(service, f"parquet-{number}", file, path)
                    counts["refused"] += 1
                else:
                    read(service, f"parquet-{number}", file, path)
                    counts["read"] += 1
            except AssertionError as failure:
                failures.append(f"{file.name}: {failure}")
    assert not failures, f"{len(failures)} failed:\n" + "\n".join(failures)
    n_all = counts["read"] + counts["refused"]
    assert n_all >= 83, counts
    print(f"   {n_all} Parquet files of others: {counts['read']} read, {counts['refused']} refused by column")


def imported(service, dataset, file, path):
    command = [service.program, "datasets", "import", path, "--json", "--dataset", dataset, *file.flags]
    command += ["--datasets", f"{service.url}/api"]
    environment = {"HOME": service.folder.name, "TRIPTYCH_API_KEY": service.owner, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def stored(service, dataset):
    answer = service.call("GET", "/api/rows/bulk_download/", key=service.owner, params={"dataset_name": dataset, "output": "json"})
    return answer.json() if answer.status_code == 200 else []


def refused(service, dataset, file, path):
    told = imported(service, dataset, file, path)
    assert told.returncode == 1, f"exit {told.returncode}: {told.stderr}"
    for column in file.want:
        assert f"column {column}" in told.stderr or f"{column} must" in told.stderr, told.stderr
    assert stored(service, dataset) == [], "some rows are stored"


def read(service, dataset, file, path):
    told = imported(service, dataset, file, path)
    assert told.returncode == 0, told.stderr
    report = json.loads(told.stdout)
    assert (report["stored"], report["cut_to_microseconds"]) == (N, file.cut), report
    rows = stored(service, dataset)
    assert [row["timestamp"] for row in rows] == [text(at) for at in file.times], rows[:3]
    for name, values in file.want.items():
        # In JSON, large floats are written without a decimal point.
        got = [float(row[name]) if isinstance(value, float) and name in row else row.get(name) for row, value in zip(rows, values)]
        assert got == values, f"{name}: {got} is not {values}"
