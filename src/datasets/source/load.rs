//! Measures the load of the machine every second: processor, memory, network, disk.

use std::collections::BTreeMap;
use std::error::Error;
use std::mem;
use std::time::Duration;

use model::dataset::VALUE_COLUMN;
use model::timestamp::Timestamp;
use sysinfo::{Disks, Networks, System};
use task::causes::chain;
use task::clock::Clock;
use task::steady_date::SteadyDate;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};

use super::{Description, Feed, ROW_HOLD};
use crate::Datasets;

/// Number of days for which rows are retained. This is more history than the screen shows, and occupies
/// some 20 MB.
const KEEP_DAYS: &str = "1";

/// Options of the source that measures the load of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Interval between two measurements.
    pub every: Duration,
}

impl LoadOptions {
    /// Usual options: one measurement per second.
    pub const USUAL: Self = Self { every: Duration::from_secs(1) };
}

/// Name, description, unit of the first column, and columns of each dataset. Each measurement has one row
/// for each dataset, in the same order.
const DATASETS: [(&str, &str, &str, &[&str]); 4] = [
    (
        "machine_cpu",
        "Processor load of this machine, each second",
        "percent",
        &["load_percent", "busiest_core_percent", "load_average_1m"],
    ),
    (
        "machine_memory",
        "Memory in use on this machine, each second",
        "percent",
        &["used_percent", "used_bytes", "swap_used_bytes"],
    ),
    (
        "machine_network",
        "Network traffic of this machine, each second, without loopback",
        "bytes per second",
        &["received_bytes_per_second", "sent_bytes_per_second"],
    ),
    (
        "machine_disk",
        "Disk traffic and space of this machine, each second",
        "bytes per second",
        &["written_bytes_per_second", "read_bytes_per_second", "used_percent"],
    ),
];

/// Values of one measurement, as a row for each dataset.
type Measurement = [Vec<Option<f64>>; 4];

/// Measures and stores the load until the future is dropped.
pub(crate) async fn run(datasets: Datasets, options: LoadOptions, clock: Clock) {
    let Some(mut store) = LoadStore::open(&datasets, &clock).await else { return };
    info!("the machine's load is measured every {:?}", options.every);
    let mut ticks = interval(options.every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut meter = Meter::new(Instant::now());
    loop {
        ticks.tick().await;
        let now = Instant::now();
        let Ok((used, measurement)) = spawn_blocking(move || {
            let measurement = meter.measure(now);
            (meter, measurement)
        })
        .await
        else {
            return;
        };
        meter = used;
        store.put(measurement).await;
    }
}

/// Destination of measurements: the datasets and the state of storing.
struct LoadStore {
    feeds: Vec<Feed>,
    row_date: SteadyDate,
    last: Option<Timestamp>,
    clock_leaps: Condition,
    append_fails: Condition,
}

impl LoadStore {
    /// Opens the datasets. On failure, logs the error and returns `None`.
    async fn open(datasets: &Datasets, clock: &Clock) -> Option<Self> {
        let mut feeds = Vec::new();
        for (name, text, unit, columns) in DATASETS {
            let metadata = [
                ("source", "machine"),
                ("provider", "triptych"),
                ("frequency", "1s"),
                (VALUE_COLUMN, columns.first().copied().unwrap_or_default()),
                ("unit", unit),
            ];
            let description =
                Description { name, text, metadata: &metadata, columns, keep_days: KEEP_DAYS };
            match Feed::open(datasets, description).await {
                Ok(feed) => feeds.push(feed),
                Err(error) => {
                    warn!(
                        error = &error as &dyn Error,
                        "the machine's load is not measured: cannot open dataset {name}"
                    );
                    return None;
                }
            }
        }
        Some(Self {
            feeds,
            row_date: SteadyDate::new(clock.clone(), clock.now(), ROW_HOLD),
            last: None,
            clock_leaps: Condition::default(),
            append_fails: Condition::default(),
        })
    }

    /// Stores a measurement with the current time. Skips it if the clock has just leapt ahead, since a
    /// row in the future would remain the latest row.
    async fn put(&mut self, measurement: Measurement) {
        let row_date = self.row_date.read();
        let lead = self.row_date.lead();
        let leap = lead.map(|lead| format!("the clock leapt ahead by {lead:?}"));
        self.clock_leaps.report(leap, "storing the machine's load");
        let timestamp = Timestamp::from_seconds(row_date.seconds());
        if lead.is_some() || self.last.replace(timestamp) == Some(timestamp) {
            return;
        }
        let rows = self.feeds.iter().zip(measurement);
        let appends = rows.map(|(feed, numbers)| feed.append([(timestamp, numbers)]));
        let results = futures::future::join_all(appends).await;
        let error = results.into_iter().find_map(Result::err);
        self.append_fails.report(error.map(|error| chain(&error)), "storing the machine's load");
    }
}

/// True while a repeated operation fails. The beginning and the end of a failure are logged once.
#[derive(Debug, Default)]
struct Condition(bool);

impl Condition {
    fn report(&mut self, cause: Option<String>, what: &str) {
        let was_failing = mem::replace(&mut self.0, cause.is_some());
        match cause {
            Some(cause) if !was_failing => warn!(cause, "stopped {what}"),
            None if was_failing => info!("resumed {what}"),
            _ => {}
        }
    }
}

/// Reader of the machine's counters. If a counter cannot be read, its value is missing.
#[derive(Debug)]
struct Meter {
    system: Option<System>,
    networks: Option<Networks>,
    disks: Option<Disks>,
    measured: Instant,
}

impl Meter {
    fn new(now: Instant) -> Self {
        let mut system = System::new().ok();
        if let Some(system) = &mut system {
            system.refresh_cpu_usage();
        }
        let networks = Networks::new_with_refreshed_list().ok();
        let disks = Disks::new_with_refreshed_list().ok();
        Self { system, networks, disks, measured: now }
    }

    /// Returns the current load, with rates since the previous measurement.
    fn measure(&mut self, now: Instant) -> Measurement {
        let seconds = now.saturating_duration_since(self.measured).as_secs_f64().max(1e-3);
        self.measured = now;
        [self.cpu(), self.memory(), self.network(seconds), self.disk(seconds)]
    }

    fn cpu(&mut self) -> Vec<Option<f64>> {
        let Some(system) = &mut self.system else { return vec![None; 3] };
        system.refresh_cpu_usage();
        let busiest = system.cpus().iter().map(|cpu| percent(cpu.usage())).reduce(f64::max);
        let average = System::load_average().ok().map(|average| average.one);
        vec![Some(percent(system.global_cpu_usage())), busiest, average]
    }

    fn memory(&mut self) -> Vec<Option<f64>> {
        let Some(system) = &mut self.system else { return vec![None; 3] };
        system.refresh_memory();
        let (total, used) = (number(system.total_memory()), number(system.used_memory()));
        let used_percent = (total > 0.0).then(|| round_hundredths(100.0 * used / total));
        vec![used_percent, Some(used), Some(number(system.used_swap()))]
    }

    fn network(&mut self, seconds: f64) -> Vec<Option<f64>> {
        let Some(networks) = &mut self.networks else { return vec![None; 2] };
        networks.refresh(true);
        let (mut received, mut sent) = (0.0, 0.0);
        for (name, network) in networks.iter() {
            if name != "lo" {
                received += number(network.received());
                sent += number(network.transmitted());
            }
        }
        vec![Some((received / seconds).round()), Some((sent / seconds).round())]
    }

    fn disk(&mut self, seconds: f64) -> Vec<Option<f64>> {
        let Some(disks) = &mut self.disks else { return vec![None; 3] };
        disks.refresh(true);
        // Counts a disk that is mounted in several places only once.
        let by_name: BTreeMap<_, _> = disks.iter().map(|disk| (disk.name(), disk)).collect();
        let (mut written, mut read, mut total, mut free) = (0.0, 0.0, 0.0, 0.0);
        for disk in by_name.into_values() {
            let usage = disk.usage();
            written += number(usage.written_bytes);
            read += number(usage.read_bytes);
            total += number(disk.total_space());
            free += number(disk.available_space());
        }
        let used_percent = (total > 0.0).then(|| round_hundredths(100.0 * (total - free) / total));
        vec![Some((written / seconds).round()), Some((read / seconds).round()), used_percent]
    }
}

/// Converts the load of a processor to percent, rounded to the precision of the measurement.
fn percent(share: f32) -> f64 {
    round_hundredths(f64::from(share).clamp(0.0, 100.0))
}

fn round_hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 bytes to count")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
