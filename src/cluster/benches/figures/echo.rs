//! The baseline of latencies: libp2p's own request-response protocol on a swarm without other
//! protocols.

use std::io;
use std::process::ExitCode;

use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, StreamExt as _};
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder, noise, tcp, yamux};
use libp2p_request_response::{Behaviour, Codec, Config, Event, Message, ProtocolSupport};

use crate::Outcome;
use crate::cluster::Folder;
use crate::nodes::part;
use crate::part::print_line;
use crate::process::Process;

/// Protocol of the echo.
const PROTOCOL: StreamProtocol = StreamProtocol::new("/figures/echo/1.0.0");

/// Echoed message, as long as a greeting.
const WORDS: &[u8] = b"hello";

/// Maximum length of a message.
const BYTES_MAX: u64 = 1024;

/// Codec of messages that end at the end of their stream.
#[derive(Debug, Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Protocol = StreamProtocol;
    type Request = Vec<u8>;
    type Response = Vec<u8>;

    async fn read_request<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        stream: &mut T,
    ) -> io::Result<Vec<u8>> {
        read(stream).await
    }

    async fn read_response<T: AsyncRead + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        stream: &mut T,
    ) -> io::Result<Vec<u8>> {
        read(stream).await
    }

    async fn write_request<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        stream: &mut T,
        request: Vec<u8>,
    ) -> io::Result<()> {
        stream.write_all(&request).await
    }

    async fn write_response<T: AsyncWrite + Unpin + Send>(
        &mut self,
        _: &StreamProtocol,
        stream: &mut T,
        response: Vec<u8>,
    ) -> io::Result<()> {
        stream.write_all(&response).await
    }
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn swarm() -> Outcome<Swarm<Behaviour<Plain>>> {
    let swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|_| {
            Behaviour::with_codec(Plain, [(PROTOCOL, ProtocolSupport::Full)], Config::default())
        })?
        .build();
    Ok(swarm)
}

/// Echoes messages until it is killed.
pub(crate) async fn serve() -> Outcome<ExitCode> {
    let mut swarm = swarm()?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::NewListenAddr { address, .. } => {
                print_line(&format!("{address} {}", swarm.local_peer_id()))?;
            }
            SwarmEvent::Behaviour(Event::Message {
                message: Message::Request { request, channel, .. },
                ..
            }) => {
                let behaviour = swarm.behaviour_mut();
                behaviour.send_response(channel, request).map_err(|_| "nobody waits")?;
            }
            _ => {}
        }
    }
}

/// A client of the echo, which is a separate process.
pub(crate) struct Client {
    swarm: Swarm<Behaviour<Plain>>,
    server: PeerId,
    _process: Process,
}

impl Client {
    pub(crate) async fn start() -> Outcome<Self> {
        let folder = Folder::new()?;
        let mut process = Process::spawn(part("echo", folder.path())?)?;
        let line = process.line().await?;
        let (address, server) = line.split_once(' ').ok_or("echo printed no address")?;
        let mut swarm = swarm()?;
        swarm.dial(address.parse::<Multiaddr>()?)?;
        while !matches!(swarm.next().await, Some(SwarmEvent::ConnectionEstablished { .. })) {}
        Ok(Self { swarm, server: server.parse()?, _process: process })
    }

    /// Sends a message and reads the response.
    pub(crate) async fn ask(&mut self) -> Outcome<()> {
        self.swarm.behaviour_mut().send_request(&self.server, WORDS.to_vec());
        loop {
            match self.swarm.select_next_some().await {
                SwarmEvent::Behaviour(Event::Message {
                    message: Message::Response { response, .. },
                    ..
                }) => {
                    let is_echo = response == WORDS;
                    return if is_echo {
                        Ok(())
                    } else {
                        Err("response differs from the request".into())
                    };
                }
                SwarmEvent::Behaviour(Event::OutboundFailure { error, .. }) => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }
}
