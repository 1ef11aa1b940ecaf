"""Runs the commands of README's section about Python, and the calls in the package's README."""

import pathlib
import re
import subprocess
import sys

import duckdb
import pandas
from fsspec.implementations.http import HTTPFileSystem

ROOT = pathlib.Path(__file__).resolve().parents[3]


def readme_runs(stack):
    section = (ROOT / "README.md").read_text().split("\n## Python\n")[1].split("\n## ")[0]
    assert len(section.strip().splitlines()) <= 15, "the section has at most fifteen lines"
    python = re.search(r"^```python\n(.*?)^```$", section, re.M | re.S)[1]
    assert len(python.strip().splitlines()) <= 8
    exec(compile(python.replace(".run()", ".run(limit=1)"), "README.md", "exec"), {"__name__": "readme"})
    commands = re.findall(r"^python3 -c .*$", section, re.M)
    assert len(commands) == 2
    for command in commands:
        if "duckdb" in command and not has_httpfs():
            asof_join(stack, command)
            continue
        script = f'eval "$({stack.program} env)"\n{command}'
        script = script.replace("python3", sys.executable)
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.returncode == 0 and "close" in done.stdout, f"{command}\n{done.stdout}{done.stderr}"


def readme_of_the_package_runs(_):
    text = (ROOT / "assets/python/README.md").read_text()
    (python,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    exec(compile(python, "assets/python/README.md", "exec"), {"__name__": "readme"})


def has_httpfs():
    """Returns True if DuckDB's extension for HTTP can be installed, which downloads it."""
    try:
        duckdb.connect().execute("INSTALL httpfs; LOAD httpfs")
    except duckdb.Error:
        return False
    return True


class DatedHttp(HTTPFileSystem):
    """A file system over HTTP with the modification time that DuckDB requires."""

    def modified(self, path):
        return pandas.Timestamp("2026-01-01", tz="UTC").to_pydatetime()


def asof_join(stack, command):
    """Runs the query of `command` with another HTTP client."""
    url = re.search(r"url = '(.*?)'", command)[1]
    script = f'eval "$({stack.program} env)"\nprintf %s "{url}"'
    url = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    query = re.search(r'sql\(f\\"(.*?)\\"\)', command)[1].replace("{url}", url)
    connection = duckdb.connect()
    connection.register_filesystem(DatedHttp())
    shown = str(connection.sql(query))
    assert "close" in shown and "eth" in shown, shown
