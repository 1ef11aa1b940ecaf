//! Measures pages that are read through one, two and three services with one `PostgreSQL`: pages per
//! second, and the processor time of the services and the server. Each service runs on its own core,
//! unless the machine has too few cores.

use std::thread::available_parallelism;
use std::time::Duration;

use test_bench::http::{Connection, Request};
use test_bench::{Row, note, per_second, to_f64};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::page::{PAGE_ROWS, page_of};
use crate::postgres::{self, Server};
use crate::program::{Bench, Loaded};
use crate::rows::Options;
use crate::{Outcome, ingest};

/// Maximum number of services. A machine with four cores has one core left for the server and the load.
const N_SERVICES: usize = 3;

/// Maximum number of rows of the dataset. Since a page can begin at each row, this is enough for
/// different pages.
const ROWS_MAX: usize = 1_000_000;

/// Number of connections to each service, so that always some request is pending.
const CONNECTIONS: usize = 8;

/// Number of pages that are requested again and again, so that every service has them in its cache.
const N_CACHED: usize = 64;

/// Duration of each measurement.
const SPAN: Duration = Duration::from_secs(2);

/// Number of repetitions of each measurement. Measurements alternate, so that other load affects all
/// measurements equally.
const N_TAKES: u32 = 3;

/// Distance in rows between pages that are read once. It is a prime, so that all of these pages differ.
const APART_ROWS: usize = 1_299_709;

/// Minimum number of pages per second of processor time with all services, relative to one service.
const BAR: f64 = 0.9;

/// Kind of pages that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// Pages that every service has in its cache.
    Cached,
    /// Different pages, each of which is read once.
    Anywhere,
}

/// Measurements of reads that are spread over a number of services.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    n_pages: usize,
    elapsed: Duration,
    /// Processor time of all services together.
    of_services: Duration,
    /// Processor time of all processes of the database server together.
    of_server: Duration,
}

/// Pages that the clients read.
#[derive(Debug, Clone)]
struct Load {
    pages: Pages,
    key: String,
    loaded: Loaded,
    /// Number of pages read so far by [`Pages::Anywhere`].
    n_once: usize,
}

/// Measures pages of each kind. Returns no figures if `PostgreSQL` is not installed.
pub(crate) async fn all(options: &Options) -> Outcome<Vec<Row>> {
    if !postgres::is_installed().await {
        return Ok(Vec::new());
    }
    let server = Server::start(options).await?;
    let mut services = vec![Bench::start(options, Some(server.url())).await?];
    let loaded = ingest::load(&services[0], options.n_rows.min(ROWS_MAX)).await?;
    services[0].stop().await?;
    while services.len() < N_SERVICES {
        services.push(services[0].replica(options)?);
    }
    let n_cores = available_parallelism()?.get();
    note(&format!("{n_cores} cores"))?;
    for (idx, service) in services.iter_mut().enumerate() {
        service.run_on(idx % n_cores).await?;
    }
    let mut load = Load { pages: Pages::Cached, key: services[0].key.clone(), loaded, n_once: 0 };
    let mut rows = Vec::new();
    for pages in [Pages::Cached, Pages::Anywhere] {
        load.pages = pages;
        let mut taken = [Taken::default(); N_SERVICES];
        for _ in 0..N_TAKES {
            for (idx, taken) in taken.iter_mut().enumerate() {
                taken.add(load.take(&services[..=idx], &server).await?);
            }
        }
        rows.extend(report(pages, &taken)?);
    }
    for service in &mut services {
        service.stop().await?;
    }
    server.stop().await?;
    Ok(rows)
}

impl Load {
    /// Reads pages through all of `services` for the time [`SPAN`].
    async fn take(&mut self, services: &[Bench], server: &Server) -> Outcome<Taken> {
        let mut connections = Vec::new();
        for service in services {
            if self.pages == Pages::Cached {
                let mut connection = service.connect().await?;
                for page in 0..N_CACHED {
                    connection.send(&self.request(page)).await?.ok()?;
                }
            }
            for _ in 0..CONNECTIONS {
                connections.push(service.connect().await?);
            }
        }
        let of_services = || services.iter().map(Bench::cpu).sum::<Outcome<Duration>>();
        let services_before = of_services()?;
        let server_before = server.cpu()?;
        let began = Instant::now();
        let n_pages = self.read(connections, began).await?;
        Ok(Taken {
            n_pages,
            elapsed: began.elapsed(),
            of_services: of_services()?.saturating_sub(services_before),
            of_server: server.cpu()?.saturating_sub(server_before),
        })
    }

    /// Reads pages on all `connections` until the time [`SPAN`] has elapsed since `began`. Returns the
    /// number of pages.
    async fn read(&mut self, connections: Vec<Connection>, began: Instant) -> Outcome<usize> {
        let n_connections = connections.len();
        let mut reading = JoinSet::new();
        for (idx, mut connection) in connections.into_iter().enumerate() {
            let load = self.clone();
            reading.spawn(async move {
                let mut n_pages = 0;
                while began.elapsed() < SPAN {
                    let request = load.request(idx + n_connections * n_pages);
                    let page = connection.drain(&request, b'{').await?;
                    if page.status != 200 || page.n_marks < PAGE_ROWS {
                        return Err(format!("{} and {} rows", page.status, page.n_marks).into());
                    }
                    n_pages += 1;
                }
                Outcome::Ok(n_pages)
            });
        }
        let (mut n_pages, mut n_most) = (0, 0);
        while let Some(read) = reading.join_next().await {
            let n_read = read??;
            n_pages += n_read;
            n_most = n_most.max(n_read);
        }
        self.n_once += n_connections * n_most;
        Ok(n_pages)
    }

    /// Returns the request for a page, given its number within this measurement.
    fn request(&self, page: usize) -> Request {
        let n_minutes = self.loaded.n_rows.saturating_sub(PAGE_ROWS + 1).max(1);
        let minute = match self.pages {
            Pages::Cached => n_minutes * (page % N_CACHED) / N_CACHED,
            Pages::Anywhere => (self.n_once + page) * APART_ROWS % n_minutes,
        };
        page_of(self.loaded.dataset, minute, &self.key)
    }
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.n_pages += other.n_pages;
        self.elapsed += other.elapsed;
        self.of_services += other.of_services;
        self.of_server += other.of_server;
    }

    fn pages_per_second(&self) -> f64 {
        per_second(self.n_pages, self.elapsed)
    }

    /// Returns the pages per second of processor time that the services and the server use together.
    fn pages_per_core(&self) -> f64 {
        per_second(self.n_pages, self.of_services + self.of_server)
    }
}

/// Compares the rate with each number of services with the rate of one service.
fn report(pages: Pages, taken: &[Taken; N_SERVICES]) -> Outcome<Vec<Row>> {
    let what = match pages {
        Pages::Cached => "in the cache",
        Pages::Anywhere => "anywhere",
    };
    let one = taken[0];
    let mut rows = Vec::new();
    for (n_services, taken) in (1..).zip(taken) {
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / to_f64(taken.n_pages).max(1.0);
        note(&format!(
            "{n_services}: {:.0} pages/s; processor time of a page: {:.0} us in services, {:.0} us in \
             PostgreSQL; {:.2} and {:.2} cores",
            taken.pages_per_second(),
            micros(taken.of_services),
            micros(taken.of_server),
            taken.of_services.as_secs_f64() / taken.elapsed.as_secs_f64(),
            taken.of_server.as_secs_f64() / taken.elapsed.as_secs_f64(),
        ))?;
        if n_services > 1 {
            let ratio = taken.pages_per_second() / one.pages_per_second();
            let name = format!("pages {what} through {n_services} services, one core each / one");
            rows.push(Row::without_bar(&name, format!("{ratio:.2}")));
        }
    }
    let ratio = taken[N_SERVICES - 1].pages_per_core() / one.pages_per_core();
    let name = format!("pages {what} a second of processor time, {N_SERVICES} services / one");
    rows.push(Row::new(&name, format!("{ratio:.2}"), "0.9 at least", ratio >= BAR));
    Ok(rows)
}
