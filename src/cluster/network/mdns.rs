//! The local network: nodes in it find one another by multicast DNS, as the libp2p specification
//! says: a question for `_p2p._udp.local`, answered by text records `dnsaddr=<multiaddress>`.
//!
//! Written here because the client that libp2p would bring costs more to build than all of its
//! Kademlia. Absent on purpose: anything but this one question and its answer, and IPv6.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use task::backoff::Backoff;
use tokio::{
    net::UdpSocket,
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::debug;

use super::{BootNode, address};

mod packet;

/// Where multicast DNS is spoken.
pub(super) const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 251), 5353);

/// The wait before the second question.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait between questions: nodes that come later ask themselves.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// How often a question is answered. All who ask hear the answer.
const ANSWER_EVERY: Duration = Duration::from_secs(1);

/// The longest packet read, in bytes, as the specification of multicast DNS bounds it.
const PACKET_BYTES_MAX: usize = 9000;

/// Addresses told, or read from one packet.
const ADDRESSES_MAX: usize = 16;

/// Opens the socket on which `group` is spoken, on the interface of `address` or the usual one.
pub(super) fn join_group(address: IpAddr, group: SocketAddrV4) -> io::Result<UdpSocket> {
    let interface = match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Other nodes and programs of this machine speak here too.
    socket.set_reuse_address(true)?;
    #[cfg(unix)]
    socket.set_reuse_port(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, group.port())).into())?;
    socket.join_multicast_v4(group.ip(), &interface)?;
    if !interface.is_unspecified() {
        socket.set_multicast_if_v4(&interface)?;
    }
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}

/// Asks and answers until `found` is closed. `addresses` tells ours, each ending in our id.
pub(super) async fn find(
    socket: UdpSocket,
    group: SocketAddrV4,
    addresses: impl Fn() -> Vec<String> + Send,
    found: mpsc::Sender<BootNode>,
) {
    let mut waits = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let (mut ask, mut answered) = (Instant::now(), None::<Instant>);
    let mut packet = vec![0; PACKET_BYTES_MAX];
    loop {
        let heard = tokio::select! {
            () = found.closed() => return,
            () = sleep_until(ask) => {
                ask = Instant::now() + waits.next_wait();
                send(&socket, group, &packet::question()).await;
                continue;
            }
            heard = socket.recv_from(&mut packet) => heard,
        };
        let n_bytes = match heard {
            Ok((n_bytes, _)) => n_bytes,
            Err(error) => {
                debug!(%error, "failed to hear the local network");
                // It may fail again at once.
                sleep_until(Instant::now() + FIRST_WAIT).await;
                continue;
            }
        };
        match packet::read(packet.get(..n_bytes).unwrap_or_default()) {
            Some(packet::Read::Question) => {
                let now = Instant::now();
                if answered.is_none_or(|at| now - at >= ANSWER_EVERY) {
                    answered = Some(now);
                    let own = addresses();
                    let own = own.iter().take(ADDRESSES_MAX).map(String::as_str);
                    send(&socket, group, &packet::answer(own)).await;
                }
            }
            Some(packet::Read::Answer(texts)) => {
                for node in texts.iter().filter_map(|text| address::dialable(text)) {
                    // Full, they are heard again at the next question.
                    drop(found.try_send(node));
                }
            }
            None => {}
        }
    }
}

async fn send(socket: &UdpSocket, group: SocketAddrV4, packet: &[u8]) {
    if let Err(error) = socket.send_to(packet, group).await {
        debug!(%error, "failed to speak to the local network");
    }
}
