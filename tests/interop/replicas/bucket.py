"""An S3 server that is killed, stopped and started again."""

import os
import pathlib
import signal

from processes import Process, free_port

BUCKET = "rows"
# The folder of the bucket that services keep their objects in.
PREFIX = "team"
KEY_ID, SECRET = "interop", "a secret of this test alone"


class Bucket(Process):
    """An S3 server, which keeps its objects in files below a folder. What is started afterwards has its
    credentials."""

    def __init__(self, program, home):
        os.environ |= {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
        self.folder = pathlib.Path(home) / "s3"
        (self.folder / BUCKET).mkdir(parents=True)
        port = free_port()
        self.url = f"s3://{BUCKET}/{PREFIX}?endpoint=http://127.0.0.1:{port}&region=local"
        command = [program, "--host", "127.0.0.1", "--port", str(port)]
        command += ["--access-key", KEY_ID, "--secret-key", SECRET, str(self.folder)]
        super().__init__("s3", command, home)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def files(self, dataset="*"):
        # Half of an upload has another name.
        files = (self.folder / BUCKET / PREFIX).glob(f"{dataset}/*")
        return [file for file in files if len(file.name) == 36 and file.parent.name.isdigit()]

    def ids(self):
        return {file.name for file in self.files()}

    def n_bytes(self):
        return sum(file.stat().st_size for file in self.files())

    def take_away(self, dataset):
        """Deletes the objects of a dataset; what they were."""
        away = {file: file.read_bytes() for file in self.files(dataset)}
        assert away, "the dataset has objects"
        for file in away:
            file.unlink()
        return away
