//! Hints between services on one store, over NATS: this dataset has a new commit.
//!
//! After each commit a service publishes the commit's number on `triptych.<era of the
//! store>.ds.<dataset>`, and services with readers of the dataset poll the store at once rather
//! than when it is time. A hint holds nothing that is served: one that is lost, doubled, late or
//! forged changes only when the store is polled. Publishing never delays a commit: there is at most
//! one hint of a dataset waiting, the newest, and none while no server is connected.

use std::{collections::HashMap, fmt, mem, str::FromStr, sync::Arc, time::Duration};

use async_nats::{Client, ConnectOptions, Event, Message, ServerAddr};
use futures::{StreamExt as _, future::join_all};
use model::dataset::DatasetId;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::{
    select,
    sync::{Notify, watch},
    time::sleep,
};
use tracing::{info, warn};

/// Datasets with a hint that waits to be published. Those of more are dropped: polling finds the commits.
const WAITING_MAX: usize = 4096;

/// Received messages that wait to be taken in. A message may have a megabyte, by the servers' default;
/// what does not fit is dropped by the client.
const RECEIVED_MAX: usize = 128;

/// Digits of the longest number of a commit. A longer message is no hint.
const REVISION_DIGITS_MAX: usize = 20;

/// The last part of the subject of hints that a tag was taken away.
const WITHDRAWN: &str = "withdrawn";

/// How long a server may take to let a service in that only looks: some round trips to the other side of the
/// world, and a packet lost.
const CHECK_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait before connecting again after the client gave up, as it does where the servers
/// refuse the user or the password.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The addresses of the NATS servers, such as `nats://host:4222,nats://other:4222`.
///
/// They may hold the login, which neither `Debug` nor `Display` shows.
#[derive(Clone)]
pub struct NatsServers {
    addresses: Vec<ServerAddr>,
    login: Option<Login>,
}

/// What the servers of a cluster know a service by.
#[derive(Clone, PartialEq, Eq)]
enum Login {
    /// In place of a user, as in `nats://token@host`.
    Token(String),
    /// As in `nats://user:password@host`.
    User { name: String, password: String },
}

/// A text is no list of addresses of NATS servers. It does not say which text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NatsServersError {
    /// It has another form.
    #[error("read the addresses of NATS servers, such as nats://host:4222,nats://other:4222")]
    Addresses,
    /// Two servers have different logins, of which a client has one.
    #[error(
        "read the addresses of NATS servers with more than one user; give all of them the same one"
    )]
    Logins,
}

impl FromStr for NatsServers {
    type Err = NatsServersError;

    fn from_str(text: &str) -> Result<Self, NatsServersError> {
        let server = |text: &str| {
            let is_nats = ["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme));
            let server = text.parse::<ServerAddr>().ok().filter(|server| !server.host().is_empty());
            server.filter(|_| is_nats).ok_or(NatsServersError::Addresses)
        };
        let addresses =
            text.split(',').map(|text| server(text.trim())).collect::<Result<Vec<_>, _>>()?;
        let mut logins = addresses.iter().filter_map(Login::of_address);
        let login = logins.next();
        if logins.any(|other| Some(&other) != login.as_ref()) {
            return Err(NatsServersError::Logins);
        }
        Ok(Self { addresses, login })
    }
}

impl Login {
    /// The login in an address, if it has one.
    fn of_address(address: &ServerAddr) -> Option<Self> {
        let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let name = decode(address.username()?);
        Some(match address.password().map(decode) {
            Some(password) => Self::User { name, password },
            None => Self::Token(name),
        })
    }
}

impl NatsServers {
    /// Whether each server lets the service in, and what it says if not: that of its host and port. All are
    /// asked at once.
    pub async fn check(&self) -> Vec<NatsCheck<'_>> {
        join_all(self.addresses.iter().map(async |server| {
            let options = self.options().ignore_discovered_servers().max_reconnects(1);
            let connected = options.connection_timeout(CHECK_WITHIN).connect(server).await;
            NatsCheck { host: server.host(), port: server.port(), found: connected.map(drop) }
        }))
        .await
    }

    /// How a service introduces itself to them.
    fn options(&self) -> ConnectOptions {
        // The client itself reads no login out of an address.
        let options = match self.login.clone() {
            None => ConnectOptions::new(),
            Some(Login::Token(token)) => ConnectOptions::with_token(token),
            Some(Login::User { name, password }) => {
                ConnectOptions::with_user_and_password(name, password)
            }
        };
        options.name("triptych")
    }
}

/// What a look at a server found.
#[derive(Debug)]
pub struct NatsCheck<'a> {
    /// The host in its address.
    pub host: &'a str,
    /// The port in its address.
    pub port: u16,
    /// Why it does not let the service in, if it does not.
    pub found: Result<(), async_nats::ConnectError>,
}

impl fmt::Display for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, server) in self.addresses.iter().enumerate() {
            let comma = if idx > 0 { "," } else { "" };
            write!(f, "{comma}{}://{}:{}", server.scheme(), server.host(), server.port())?;
        }
        Ok(())
    }
}

impl fmt::Debug for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Handle to the hints that wait to be published. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct FanOut {
    waiting: Arc<Mutex<Waiting>>,
    wake: Arc<Notify>,
    is_connected: Arc<watch::Sender<bool>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The newest commit of each dataset.
    revisions: HashMap<DatasetId, u64>,
    /// Whether a tag was taken away.
    is_withdrawn: bool,
}

/// Something to look for in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The dataset may be at this commit.
    Commit(DatasetId, u64),
    /// A tag may have been taken away.
    Withdrawn,
    /// Hints were lost before, or will be from here on.
    Lost,
}

/// Takes in a hint at once.
type OnHint = Arc<dyn Fn(Hint) + Send + Sync>;

impl FanOut {
    pub(crate) fn new() -> Self {
        let is_connected = Arc::new(watch::Sender::new(false));
        Self { waiting: Arc::default(), wake: Arc::default(), is_connected }
    }

    /// Whether hints arrive now, as far as is known.
    pub(crate) fn is_connected(&self) -> bool {
        *self.is_connected.borrow()
    }

    /// Has a hint of a commit published soon.
    pub(crate) fn add_commit(&self, dataset: DatasetId, revision: u64) {
        if !self.is_connected() {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.revisions.len() < WAITING_MAX || waiting.revisions.contains_key(&dataset) {
            let newest = waiting.revisions.entry(dataset).or_default();
            *newest = revision.max(*newest);
            self.wake.notify_one();
        }
    }

    /// Has a hint published soon that a tag was taken away.
    pub(crate) fn add_withdrawal(&self) {
        self.waiting.lock().is_withdrawn = true;
        self.wake.notify_one();
    }

    /// Publishes hints, and has `on_hint` take in those of other services on the store of this era,
    /// until dropped.
    pub(crate) async fn run(
        self,
        servers: NatsServers,
        era: u32,
        on_hint: impl Fn(Hint) + Send + Sync + 'static,
    ) {
        let on_hint: OnHint = Arc::new(on_hint);
        let prefix = format!("triptych.{era:08x}.");
        let mut is_warned = false;
        loop {
            let connection = Arc::new(Mutex::new(is_warned));
            match self.connect(&servers, Arc::clone(&on_hint), Arc::clone(&connection)).await {
                Ok(client) => self.exchange(&client, &on_hint, &prefix).await,
                Err(error) => {
                    warn_once(&connection, &servers, &error);
                }
            }
            is_warned = *connection.lock();
            self.is_connected.send_replace(false);
            sleep(CONNECT_AGAIN_AFTER).await;
        }
    }

    /// Starts to connect, which goes on by itself until the client is dropped. `is_warned` says whether a
    /// warning was logged since the last connection.
    async fn connect(
        &self,
        servers: &NatsServers,
        on_hint: OnHint,
        is_warned: Arc<Mutex<bool>>,
    ) -> Result<Client, async_nats::ConnectError> {
        let is_connected = Arc::clone(&self.is_connected);
        let named = servers.clone();
        let note = move |event: Event| {
            match &event {
                Event::Connected => {
                    info!(servers = %named, "connected to NATS at {named}");
                    *is_warned.lock() = false;
                    is_connected.send_replace(true);
                }
                Event::Disconnected | Event::Closed => {
                    is_connected.send_replace(false);
                    warn_once(&is_warned, &named, &event);
                }
                Event::ClientError(_) | Event::ServerError(_) => {
                    warn_once(&is_warned, &named, &event);
                }
                _ => {}
            }
            on_hint(Hint::Lost);
            async {}
        };
        servers
            .options()
            .no_echo()
            .retry_on_initial_connect()
            .subscription_capacity(RECEIVED_MAX)
            .event_callback(note)
            .connect(&servers.addresses)
            .await
    }

    /// Publishes and receives, until the client gives up.
    async fn exchange(&self, client: &Client, on_hint: &OnHint, prefix: &str) {
        let Ok(mut received) = client.subscribe(format!("{prefix}>")).await else { return };
        loop {
            select! {
                message = received.next() => match message {
                    None => return,
                    Some(Message { subject, payload, .. }) => {
                        if let Some(hint) = parse(subject.strip_prefix(prefix), &payload) {
                            on_hint(hint);
                        }
                    }
                },
                () = self.wake.notified() => {
                    if self.publish(client, prefix).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Publishes the hints that wait; those that have nowhere to go are dropped.
    async fn publish(&self, client: &Client, prefix: &str) -> Result<(), async_nats::PublishError> {
        let Waiting { revisions, is_withdrawn } = mem::take(&mut *self.waiting.lock());
        if !self.is_connected() {
            return Ok(());
        }
        if is_withdrawn {
            client.publish(format!("{prefix}{WITHDRAWN}"), "".into()).await?;
        }
        for (dataset, revision) in revisions {
            let subject = format!("{prefix}ds.{dataset}");
            client.publish(subject, revision.to_string().into()).await?;
        }
        Ok(())
    }
}

/// Logs that hints are missing, unless that was logged before.
fn warn_once(is_warned: &Mutex<bool>, servers: &NatsServers, cause: &impl fmt::Display) {
    if !mem::replace(&mut *is_warned.lock(), true) {
        warn!(
            %cause, %servers,
            "no hints over NATS at {servers}; commits of other services are found by polling, and \
             connecting goes on"
        );
    }
}

/// Reads a message: the subject without the prefix, and the text.
fn parse(subject: Option<&str>, payload: &[u8]) -> Option<Hint> {
    let subject = subject?;
    if subject == WITHDRAWN {
        return Some(Hint::Withdrawn);
    }
    let dataset = subject.strip_prefix("ds.")?.parse().ok().and_then(DatasetId::new)?;
    let digits = str::from_utf8(payload).ok().filter(|text| text.len() <= REVISION_DIGITS_MAX)?;
    Some(Hint::Commit(dataset, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::json;
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
        net::TcpListener,
    };

    use super::*;

    #[track_caller]
    fn check(subject: &str, payload: &[u8], want: Option<Hint>) {
        assert_eq!(parse(Some(subject), payload), want, "{subject} {payload:?}");
    }

    #[test]
    fn only_hints_are_taken_in() {
        let commit = |revision| Some(Hint::Commit(DatasetId::new(7).unwrap(), revision));
        check("ds.7", b"12", commit(12));
        check("ds.7", b"18446744073709551615", commit(u64::MAX));
        check("withdrawn", b"", Some(Hint::Withdrawn));
        for subject in ["", "ds", "ds.", "ds.0", "ds.x", "ds.-1", "ds.7.8", "other"] {
            check(subject, b"12", None);
        }
        let huge = vec![b'1'; 1 << 20];
        for payload in [b"".as_slice(), b"-1", b"1.5", b"18446744073709551616", b"\xff", &huge] {
            check("ds.7", payload, None);
        }
        assert_eq!(parse(None, b"12"), None);
    }

    #[track_caller]
    fn check_servers(text: &str, want: Option<&str>) {
        let servers = text.parse::<NatsServers>().ok();
        assert_eq!(servers.as_ref().map(ToString::to_string).as_deref(), want, "{text}");
        assert!(!format!("{servers:?}").contains("secret"), "{servers:?}");
    }

    #[test]
    fn servers_are_named_without_their_passwords() {
        check_servers("nats://a:4222", Some("nats://a:4222"));
        check_servers("nats://a, tls://me:secret@b:1", Some("nats://a:4222,tls://b:1"));
        check_servers(
            "nats://me:secret@a, nats://me:secret@b",
            Some("nats://a:4222,nats://b:4222"),
        );
        for text in ["", "a:4222", "http://a", "nats://", "nats://a,", "nats://a,b"] {
            check_servers(text, None);
        }
        let two_logins = "nats://me:secret@a,nats://you:secret@b".parse::<NatsServers>();
        assert_eq!(two_logins.unwrap_err(), NatsServersError::Logins);
    }

    /// What a server at `login` receives as the first message of a client.
    async fn receive_connect(login: &str) -> serde_json::Value {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = format!("nats://{login}{}", listener.local_addr().unwrap());
        let service = FanOut::new().run(address.parse().unwrap(), 1, |_| ());
        let serve = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            let info =
                r#"INFO {"server_id":"","version":"2.10.0","max_payload":1,"auth_required":true}"#;
            connection.write_all(format!("{info}\r\n").as_bytes()).await.unwrap();
            let mut line = String::new();
            BufReader::new(connection).read_line(&mut line).await.unwrap();
            serde_json::from_str(line.strip_prefix("CONNECT ").unwrap()).unwrap()
        };
        select! {
            connect = serve => connect,
            () = service => unreachable!("it connects until it is dropped"),
        }
    }

    #[tokio::test]
    async fn servers_are_sent_the_login_of_their_address() {
        for (login, user, pass, token) in [
            ("", json!(null), json!(null), json!(null)),
            ("me:a%2Fb@", json!("me"), json!("a/b"), json!(null)),
            ("a-token@", json!(null), json!(null), json!("a-token")),
        ] {
            let connect = receive_connect(login).await;
            let sent = (&connect["user"], &connect["pass"], &connect["auth_token"]);
            assert_eq!(sent, (&user, &pass, &token), "{connect}");
        }
    }

    #[test]
    fn hints_that_wait_are_few() {
        let fan_out = FanOut::new();
        let id = |number: usize| DatasetId::new(i64::try_from(number).unwrap()).unwrap();
        fan_out.add_commit(id(1), 1);
        assert!(fan_out.waiting.lock().revisions.is_empty(), "nothing waits without a server");
        fan_out.is_connected.send_replace(true);
        for number in 1..=2 * WAITING_MAX {
            fan_out.add_commit(id(number), 5);
        }
        fan_out.add_commit(id(1), 9);
        fan_out.add_commit(id(1), 7);
        let waiting = fan_out.waiting.lock();
        assert_eq!((waiting.revisions.len(), waiting.revisions[&id(1)]), (WAITING_MAX, 9));
    }
}
