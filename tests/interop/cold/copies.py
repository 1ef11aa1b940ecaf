"""Copies a database whose old rows are on S3, and shows that the copy has the same rows, and that nothing
is written or deleted in the bucket."""

import subprocess
import time

from bucket import BUCKET, PREFIX
from services import Service, wait_until


class Copies:
    """Copies from a database with a bucket to another one."""

    def __init__(self, pair, bucket, target):
        self.pair, self.bucket, self.target = pair, bucket, target
        self.source = pair.cold.database
        self.program = pair.cold.command[0]

    def command(self, *flags):
        return [self.program, "datasets", "copy", self.source, self.target.database, *flags]

    def done(self, *flags):
        done = subprocess.run(self.command(*flags), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == len(self.pair.datasets) and all("  equal  " in line for line in lines), lines
        return lines

    def fails(self, why, *flags):
        failed = subprocess.run(self.command(*flags), capture_output=True, text=True)
        assert failed.returncode == 1 and why in failed.stderr, f"instead of '{why}': {failed.stderr}"

    def interrupt(self, act, *flags):
        """Starts a copy, calls `act` once it has some rows more, and returns what it says."""
        n_before = self.target.count("chunks")
        copy = subprocess.Popen(self.command(*flags), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: self.target.count("chunks") > n_before, "a copy has rows")
        act(copy)
        said = copy.communicate()[1]
        assert copy.returncode != 0, "it was interrupted"
        return said

    def at(self, bucket, prefix):
        return self.bucket.url.replace(f"{BUCKET}/{PREFIX}", f"{bucket}/{prefix}")


def check_copies(pair, bucket, target):
    pair.cold.kill()  # its services would claim the prefix
    copies = Copies(pair, bucket, target)
    before = everything(bucket)
    wanted = "name their bucket with --from-cold"
    copies.fails(f"read old rows, which are on S3; {wanted}")
    for wrong_url in (copies.at(BUCKET, "other"), copies.at("nobody", PREFIX)):
        copies.fails(f"which was deleted or is in another bucket; {wanted}", "--from-cold", wrong_url)
    assert target.count("datasets") == 0, "nothing is copied of datasets that cannot be read"

    copies.interrupt(lambda copy: copy.kill(), "--from-cold", bucket.url)
    started = time.monotonic()
    said = copies.interrupt(lambda _: bucket.stop(), "--from-cold", bucket.url)
    waited_s = time.monotonic() - started
    assert "reach S3, which is down, overloaded or too slow" in said, said
    bucket.resume()
    lines = copies.done("--from-cold", bucket.url)
    assert everything(bucket) == before, "nothing is written or deleted in the bucket"

    target.start()
    pair.cold.start()
    compare(pair, target)
    target.restart("--cold", copies.at(BUCKET, "copied"), "--hot-rows", "4096", "--cold-object-rows", "2048")
    target.wait_until_sealed(pair.datasets[:1], 8)
    target.kill()
    copies.fails("name their bucket with --to-cold", "--from-cold", bucket.url)
    assert copies.done("--from-cold", bucket.url, "--to-cold", copies.at(BUCKET, "copied")) == lines
    target.start()
    compare(pair, target)
    print(f"copied from S3, killed once, and S3 stopped once for {waited_s:.0f} s: {len(lines)} datasets are equal")


def compare(pair, target):
    """All rows of the copy are those of the service without S3."""
    copied = type(pair)(target, pair.plain)
    for dataset in pair.datasets:
        for form in ("csv", "csv&resolution=5m", "parquet"):
            copied.same(f"/api/rows/bulk_download/?dataset={dataset}&output={form}")


def everything(bucket):
    """All objects, with that of the owner."""
    files = (file for file in (bucket.folder / BUCKET).rglob("*") if file.is_file())
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}
