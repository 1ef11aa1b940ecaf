//! Very many workers at one head: peers with real connections that offer slots but run no functions,
//! many in one process.

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs};

use cluster::identity::Identity;
use cluster::message::{OFFER_PROTOCOL, Offer, WORK_PROTOCOL, json};
use cluster::network::{Connectivity, Event, Network, NetworkOptions, Protocols};
use model::node::{GENERAL_TOPIC, PeerId, Role};
use task::clock::Clock;
use task::group::Group;
use test_bench::{Row, note};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Outcome;
use crate::cluster::Folder;
use crate::nodes::{Nodes, part};
use crate::part::{boot_nodes, print_line};
use crate::process::{BOOT, CONNECTIONS, PORT, Process, SLOTS};

/// Number of workers of the largest cluster.
pub(crate) const N_STUBS: usize = 10_000;
/// Number of workers of the head that restarts.
const N_RETURNING: usize = 1_000;
/// Number of workers in one process. The process has a listener and a connection for each worker, and
/// can open up to 20,000 files.
const N_PER_PROCESS: usize = 1_000;
/// Limit of connections of the head of the largest cluster.
const CONNECTIONS_WANTED: u32 = 24_000;

/// Interval of offers, the same as for real workers.
const OFFER_EVERY: Duration = Duration::from_secs(30);
/// Maximum time until all workers are connected.
const CONNECT_WITHIN: Duration = Duration::from_mins(5);
/// Time for which the head is idle before it is measured.
const IDLE_BEFORE: Duration = Duration::from_secs(30);
/// Duration of the measurement. Each worker sends two offers in this time.
const PERIOD: Duration = Duration::from_mins(1);
/// Interval at which the connected workers are counted.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Maximum share of a core for an idle head.
const CORE_SHARE_MAX: f64 = 0.25;
/// Maximum memory of a head per idle worker.
const BYTES_PER_WORKER_MAX: u64 = 160 * 1024;
/// Maximum time until all workers have reconnected to the restarted head.
const RECONNECT_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of connections that a worker opens on average until all workers have reconnected.
const CONNECTS_MAX: f64 = 3.0;

/// Counts of the stubs of a process.
#[derive(Debug, Default)]
struct Counts {
    /// Stubs that have offered slots on their current connection.
    n_offering: AtomicUsize,
    n_connects: AtomicUsize,
}

/// Runs as many workers as an environment variable specifies. For each line of input, writes the number
/// of workers that offer slots and the number of connections that were opened.
pub(crate) async fn serve() -> Outcome<ExitCode> {
    let (group, counts) = (Group::default(), Arc::new(Counts::default()));
    let n_stubs: usize = env::var(SLOTS)?.parse()?;
    for _ in 0..n_stubs {
        let options = NetworkOptions {
            identity: Identity::random(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            boot_nodes: boot_nodes()?,
            protocols: Protocols {
                messages: &[WORK_PROTOCOL, OFFER_PROTOCOL],
                ..Protocols::default()
            },
            connectivity: Connectivity { wanted_peers: 0, ..Connectivity::for_role(Role::Worker) },
            clock: Clock::system(),
        };
        let (network, events) = Network::start(&group, options).await?;
        network.subscribe(GENERAL_TOPIC).await?;
        group.spawn("stub", offer(network, events, Arc::clone(&counts)));
    }
    print_line("started")?;
    let mut lines = BufReader::new(stdin()).lines();
    while lines.next_line().await?.is_some() {
        let n_offering = counts.n_offering.load(Ordering::Relaxed);
        print_line(&format!("{n_offering} {}", counts.n_connects.load(Ordering::Relaxed)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Offers slots to the head whenever it connects and at intervals.
async fn offer(network: Network, mut events: mpsc::Receiver<Event>, counts: Arc<Counts>) {
    let offer = json(&Offer {
        role: Role::Worker.to_string(),
        slots: 4,
        slots_free: 4,
        ..Offer::default()
    });
    let mut head: Option<PeerId> = None;
    let mut again = Instant::now() + OFFER_EVERY;
    let mut is_counted = false;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = sleep_until(again), if head.is_some() => None,
        };
        match event {
            Some(Event::Connected(_)) => drop(counts.n_connects.fetch_add(1, Ordering::Relaxed)),
            Some(Event::Identified { peer, protocols, .. })
                if protocols.iter().any(|name| name == OFFER_PROTOCOL) =>
            {
                (head, again) = (Some(peer), Instant::now());
            }
            Some(Event::Disconnected(_)) => {
                head = None;
                counts.n_offering.fetch_sub(usize::from(is_counted), Ordering::Relaxed);
                is_counted = false;
            }
            _ => {}
        }
        if let Some(peer) = &head
            && again <= Instant::now()
        {
            again = Instant::now() + OFFER_EVERY;
            if network.tell(peer, OFFER_PROTOCOL, &offer).await.is_ok() && !is_counted {
                counts.n_offering.fetch_add(1, Ordering::Relaxed);
                is_counted = true;
            }
        }
    }
}

/// A head, and processes that each contain many stub workers.
struct Crowd {
    head: Process,
    stubs: Vec<Process>,
    n_stubs: usize,
    boot: String,
    folder: Folder,
}

impl Crowd {
    /// Starts a head and measures its memory without stubs.
    async fn start() -> Outcome<Self> {
        let folder = Folder::new()?;
        let (head, boot) = start_head(&folder, "0").await?;
        Ok(Self { head, stubs: Vec::new(), n_stubs: 0, boot, folder })
    }

    /// Starts `n_stubs` stub workers and waits until all stubs have offered slots. Returns the elapsed
    /// time.
    async fn gather(&mut self, n_stubs: usize) -> Outcome<Duration> {
        let began = Instant::now();
        self.n_stubs = n_stubs;
        for first in (0..n_stubs).step_by(N_PER_PROCESS) {
            let mut command = part("stubs", self.folder.path())?;
            let n_together = N_PER_PROCESS.min(n_stubs - first);
            command.env(BOOT, &self.boot).env(SLOTS, n_together.to_string());
            let mut process = Process::spawn(command)?;
            process.line().await?;
            self.stubs.push(process);
        }
        self.wait_for_all(began + CONNECT_WITHIN).await?;
        Ok(began.elapsed())
    }

    async fn wait_for_all(&mut self, end: Instant) -> Outcome<()> {
        loop {
            let (n_offering, n_connects) = self.counts().await?;
            if n_offering == self.n_stubs {
                return Ok(());
            }
            if end < Instant::now() {
                let n_stubs = self.n_stubs;
                let had =
                    format!("{n_offering} of {n_stubs} offer slots, {n_connects} connections");
                return Err(had.into());
            }
            sleep(CHECK_EVERY).await;
        }
    }

    /// Returns the number of stubs that offer slots and the number of connections that they opened.
    async fn counts(&mut self) -> Outcome<(usize, usize)> {
        let (mut n_offering, mut n_connects) = (0, 0);
        for process in &mut self.stubs {
            let line = process.ask("counts").await?.ok_or("stubs printed no counts")?;
            let (offering, connects) = line.split_once(' ').ok_or("counts are missing")?;
            n_offering += offering.parse::<usize>()?;
            n_connects += connects.parse::<usize>()?;
        }
        Ok((n_offering, n_connects))
    }

    /// Kills the head and restarts it at the same address.
    async fn restart_head(&mut self) -> Outcome<()> {
        let port = self.boot.split('/').nth(4).ok_or("address has no port")?.to_owned();
        self.head.end().await?;
        let (head, boot) = start_head(&self.folder, &port).await?;
        self.head = head;
        if boot == self.boot { Ok(()) } else { Err(format!("{boot} is not {}", self.boot).into()) }
    }
}

async fn start_head(folder: &Folder, port: &str) -> Outcome<(Process, String)> {
    let mut command = part("head", &folder.path().join("head"))?;
    command.env(CONNECTIONS, CONNECTIONS_WANTED.to_string()).env(PORT, port);
    let mut head = Process::spawn(command)?;
    let line = head.line().await?;
    let (_, boot) = line.split_once(' ').ok_or("head printed no address")?;
    Ok((head, boot.to_owned()))
}

/// Measures an idle head of very many workers.
pub(crate) async fn idle(nodes: &Nodes, n_stubs: usize, rows: &mut Vec<Row>) -> Outcome<Row> {
    own(nodes)?;
    let mut crowd = Crowd::start().await?;
    let before = crowd.head.usage()?;
    let took = crowd.gather(n_stubs).await?;
    let joining = crowd.head.busy()?;
    note(&format!(
        "{n_stubs} workers came in {took:.1?}, for which the head worked {joining:.1?}"
    ))?;
    sleep(IDLE_BEFORE).await;
    let began = Instant::now();
    let busy_before = crowd.head.busy()?;
    sleep(PERIOD).await;
    let busy = crowd.head.busy()?.saturating_sub(busy_before);
    let share = busy.as_secs_f64() / began.elapsed().as_secs_f64();
    let after = crowd.head.usage()?;
    let (n_offering, n_connects) = crowd.counts().await?;
    note(&format!("{n_offering} offer slots after {n_connects} connections; {after:?}"))?;
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    let bytes_each = grown / u64::try_from(n_stubs)?;
    let name = format!("memory of a head for each of {n_stubs} workers");
    let value = format!("{} KiB", bytes_each / 1024);
    rows.push(Row::new(&name, value, "160 KiB at most", bytes_each <= BYTES_PER_WORKER_MAX));
    let value = format!("{:.0} % of a core, {n_offering} connected", share * 100.0);
    let is_passed = share <= CORE_SHARE_MAX && n_offering == n_stubs;
    Ok(Row::new(
        &format!("idle head of {n_stubs} workers"),
        value,
        "25 % of a core at most",
        is_passed,
    ))
}

/// Restarts the head of many workers.
pub(crate) async fn restart(nodes: &Nodes) -> Outcome<Row> {
    own(nodes)?;
    let mut crowd = Crowd::start().await?;
    let took = crowd.gather(N_RETURNING).await?;
    let (_, n_connects_before) = crowd.counts().await?;
    note(&format!(
        "{N_RETURNING} workers connected in {took:.1?}, {n_connects_before} connections"
    ))?;
    let n_accepted_before = n_accepted()?;
    crowd.restart_head().await?;
    let began = Instant::now();
    crowd.wait_for_all(began + CONNECT_WITHIN).await?;
    let took = began.elapsed();
    let n_accepted = n_accepted()? - n_accepted_before;
    let (_, n_connects) = crowd.counts().await?;
    let each = f64::from(u32::try_from(n_accepted)?) / f64::from(u32::try_from(N_RETURNING)?);
    let n_connects = n_connects - n_connects_before;
    let busy = crowd.head.busy()?;
    note(&format!(
        "{n_accepted} connections accepted on this machine, {n_connects} joined; \
         the head worked {busy:.1?}"
    ))?;
    let value = format!("{took:.1?}, {each:.2} connections each");
    let is_passed = took <= RECONNECT_WITHIN && each <= CONNECTS_MAX;
    Ok(Row::new(
        "1 000 workers reconnected to their head",
        value,
        "30 s at most, 3 each",
        is_passed,
    ))
}

/// Returns the number of connections that all processes of this machine have accepted.
fn n_accepted() -> Outcome<u64> {
    let text = fs::read_to_string("/proc/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) =
        (lines.next().ok_or("counts are missing")?, lines.next().ok_or("no counts")?);
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, n) =
        pairs.find(|(name, _)| *name == "PassiveOpens").ok_or("no count of connections")?;
    Ok(n.parse()?)
}

fn own(nodes: &Nodes) -> Outcome<()> {
    match nodes {
        Nodes::Own => Ok(()),
        Nodes::Of(_) => Err("stubs are for a head of this program".into()),
    }
}
