"""Checks a dataset service with third-party clients: check.py PROGRAM [NAME]…

Starts the service on loopback with generated rows, and runs each check on it.
"""

import archive
import compressed
import formats
import kit
import parquet_import
import parquet_scan
import rows
import schema
import stream
from checks import run
from service import Service

CHECKS = {
    "kit": kit.check,
    "formats": formats.check,
    "parquet_import": parquet_import.check,
    "parquet_scan": parquet_scan.check,
    "compressed": compressed.check,
    "stream": stream.check,
    "archive": archive.check,
    "schema": schema.check,
}


def start(program):
    service = Service(program)
    service.start()
    rows.fill(service)
    return service


if __name__ == "__main__":
    run(CHECKS, start)
