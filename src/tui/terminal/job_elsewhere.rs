//! Where there is no Unix no shell stops and continues programs.

use std::io;

pub(super) fn stop_this() -> io::Result<()> {
    stop()
}

pub(super) fn stop() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "no shell continues a stopped program here"))
}
