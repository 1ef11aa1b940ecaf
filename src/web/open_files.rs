//! Limit of open files: raised at the start of the program, then divided among connections and streams.
//!
//! Each connection uses a file descriptor. Without free descriptors, a service could neither open a file
//! nor accept the connection of a health check. Therefore some descriptors are reserved.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum number of connections of a service, even if the limit of open files is higher. Further
/// connections wait to be accepted. Each connection needs some kilobytes in addition to its descriptor.
const CONNECTIONS_MAX: usize = 4096;

/// Minimum number of descriptors that are reserved for the store's files, listeners and pipes. The
/// dataset service has some forty open without any connection.
const RESERVE_MIN: usize = 64;

/// Raises this process's soft limit of open files to the hard limit.
///
/// The soft limit is usually low, 1024 or 256, for programs that use `select`. This program does not
/// use `select`.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays at {current:?}");
    }
}

/// Returns the maximum number of connections of a service in this process.
#[must_use]
pub fn connections_max() -> usize {
    connections_within(open_files_max())
}

/// Returns the limit of open files, or `None` if it is unlimited.
fn open_files_max() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

/// Returns the maximum number of connections with endless responses. The other connections remain
/// available for requests with finite responses.
#[must_use]
pub fn streams_max() -> usize {
    streams_within(connections_max())
}

/// Returns the maximum number of connections for a limit of open files.
fn connections_within(limit: Option<usize>) -> usize {
    let Some(limit) = limit else { return CONNECTIONS_MAX };
    let reserve = RESERVE_MIN.max(limit / 4);
    limit.saturating_sub(reserve).clamp(1, CONNECTIONS_MAX)
}

fn streams_within(connections: usize) -> usize {
    (connections / 4 * 3).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(limit: Option<usize>, connections: usize, streams: usize) {
        let allowed = connections_within(limit);
        assert_eq!((allowed, streams_within(allowed)), (connections, streams), "{limit:?}");
    }

    #[test]
    fn file_descriptors_are_divided_among_connections_and_streams() {
        check(None, 4096, 3072);
        check(Some(1_048_576), 4096, 3072);
        check(Some(1024), 768, 576);
        check(Some(256), 192, 144);
        check(Some(64), 1, 1);
        check(Some(0), 1, 1);
    }

    #[test]
    fn soft_limit_of_open_files_is_raised_to_the_hard_limit() {
        raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
