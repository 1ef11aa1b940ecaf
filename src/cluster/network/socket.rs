//! What is asked of the sockets of connections, so that a lost link is noticed.
//!
//! A cable that is pulled, a machine that dies or an address that changes tells nobody: the kernel
//! resends for a quarter of an hour what is not acknowledged, and an idle connection stands for
//! ever. Pings notice it, too, but late: one that is not answered is forgiven, and each wakes both
//! nodes. Probes of the kernel wake neither.

use std::time::Duration;

use libp2p::tcp::tokio::TcpStream;
use socket2::{SockRef, TcpKeepalive};
use tracing::debug;

/// How long nothing may come before the kernel asks whether the other side is there. Longer than
/// between the pings of a head, so that it asks on no line that has them.
const PROBE_AFTER: Duration = Duration::from_secs(20);

/// How often it asks until it is answered.
const PROBE_EVERY: Duration = Duration::from_secs(5);

/// How often it asks before it gives the connection up, where [`UNACKNOWLEDGED_FOR`] is not known.
const PROBES: u32 = 2;

/// How long what was sent, a probe or anything else, may stay unacknowledged: as long as between two
/// offers of a worker, so that a worker whose link is back is known to its heads within two such
/// periods. A link that is back earlier has lost no connection.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_FOR: Duration = Duration::from_secs(30);

/// Has the kernel end the connection of `stream` once the other side is not reached any more.
pub(super) fn watch(stream: TcpStream) -> TcpStream {
    let socket = SockRef::from(&stream.0);
    let probes =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    let watched = socket.set_tcp_keepalive(&probes);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let watched = watched.and_then(|()| socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_FOR)));
    if let Err(error) = watched {
        // Pings notice it later.
        debug!(%error, "failed to have a connection watched by the kernel");
    }
    stream
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream as Socket};

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_lost_link_is_given_up_within_the_time_between_two_offers() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = Socket::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = watch(TcpStream(socket));
        let socket = SockRef::from(&stream.0);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_FOR));
        assert!(PROBE_AFTER + PROBE_EVERY * PROBES <= UNACKNOWLEDGED_FOR);
    }
}
