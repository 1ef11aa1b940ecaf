//! The limit of open files: raised at start, and divided among connections and streams.
//!
//! Each connection takes a file descriptor. A service that spends its last one on a connection can
//! neither open a file nor accept the connection of a health check, so some are kept back.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections of one service at a time, however many files it may open. Further ones wait to be
/// accepted. Each takes some kilobytes beside its descriptor.
const CONNECTIONS_MAX: usize = 4096;

/// Descriptors kept back for the store's files, listeners and pipes: the dataset service has some
/// forty open before anybody connects.
const RESERVE_MIN: usize = 64;

/// Raises this process's soft limit of open files to the hard one.
///
/// Systems set the soft one low, 1024 or 256, for programs that use `select`; none of ours do.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays at {current:?}");
    }
}

/// How many connections a service of this process may have at a time.
#[must_use]
pub fn connections_max() -> usize {
    connections_within(open_files_max())
}

/// The files that this process may open; `None` for no limit.
fn open_files_max() -> Option<usize> {
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok())
}

/// How many of them may be endless answers; the rest stay free for requests that end.
#[must_use]
pub fn streams_max() -> usize {
    streams_within(connections_max())
}

/// The connections that `limit` open files allow; without a limit as many as there ever are.
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
    fn descriptors_are_divided_among_connections_and_streams() {
        check(None, 4096, 3072);
        check(Some(1_048_576), 4096, 3072);
        check(Some(1024), 768, 576);
        check(Some(256), 192, 144);
        check(Some(64), 1, 1);
        check(Some(0), 1, 1);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
