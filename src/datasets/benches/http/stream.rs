//! Measures many readers of a dataset, each of which must receive every row, and the effect of a stalled
//! reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use test_bench::http::{Connection, Request};
use test_bench::{Row, note, quantile, to_f64};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::Outcome;
use crate::market::timestamp_of;
use crate::program::Bench;

/// Number of connections that read the stream.
const N_READERS: usize = 2_000;

/// Number of connections that are opened concurrently, about the length of the listening socket's
/// backlog.
const OPENING: usize = 100;

/// Number of rows that are inserted while the readers are connected.
const N_ROWS: usize = 200;

/// Interval between two inserted rows.
const EVERY: Duration = Duration::from_millis(100);

/// Maximum time until a row has reached the last reader, for 99 % of the rows.
const P99_BAR: Duration = Duration::from_millis(250);

/// Time limit for all readers to connect, and to receive the remaining rows.
const WITHIN: Duration = Duration::from_mins(1);

/// Time limit from when the stalled reader resumes until it reaches the end of its stream, which was cut
/// off.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Last bytes of a response with chunked transfer encoding.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Number of readers besides the stalled reader.
const BURST_READERS: usize = 20;
/// Number of rows of each insert while a reader is stalled.
const BURST_ROWS: usize = 1_000;
/// Number of inserts while a reader is stalled. The inserted rows exceed all buffers of the stalled
/// reader.
const N_BURSTS: usize = 400;

/// Record of the arrivals of rows at all readers.
#[derive(Debug)]
struct Board {
    began: Instant,
    /// For each row, the number of readers that have received it.
    n_readers: Vec<AtomicUsize>,
    /// Microseconds from `began` to the arrival of each row at its last reader.
    last_us: Vec<AtomicU64>,
    /// Number of connected readers.
    n_connected: AtomicUsize,
    /// Number of rows that a reader received a second time.
    n_repeated: AtomicUsize,
}

impl Board {
    fn new(n_rows: usize) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            n_readers: (0..n_rows).map(|_| AtomicUsize::new(0)).collect(),
            last_us: (0..n_rows).map(|_| AtomicU64::new(0)).collect(),
            n_connected: AtomicUsize::new(0),
            n_repeated: AtomicUsize::new(0),
        })
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the number of arrivals that are missing, if `n_readers` should have received every row.
    fn n_lost(&self, n_readers: usize) -> usize {
        let got: usize = self.n_readers.iter().map(|n| n.load(Ordering::Relaxed)).sum();
        (self.n_readers.len() * n_readers).saturating_sub(got)
    }
}

/// State of one connection that reads the stream.
#[derive(Debug)]
struct Reader {
    board: Arc<Board>,
    is_connected: bool,
    /// Received part of an event that is not complete yet.
    text: Vec<u8>,
    /// Number of the latest row that the reader received.
    last: Option<usize>,
}

impl Reader {
    fn new(board: &Arc<Board>) -> Self {
        Self { board: Arc::clone(board), is_connected: false, text: Vec::new(), last: None }
    }

    /// Records the rows in received bytes, which can end within an event.
    fn take(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        let Some(end) = self.text.windows(2).rposition(|two| two == b"\n\n") else { return };
        let rest = self.text.split_off(end + 2);
        let text = std::mem::replace(&mut self.text, rest);
        let text = String::from_utf8_lossy(&text);
        if !self.is_connected && text.contains("event: connected") {
            self.is_connected = true;
            self.board.n_connected.fetch_add(1, Ordering::Relaxed);
        }
        let now = self.board.now_us();
        for found in text.split("\"row\":").skip(1) {
            let digits = found.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            let Ok(row) = digits.parse::<usize>() else { continue };
            if self.last.is_some_and(|last| row <= last) {
                self.board.n_repeated.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.last = Some(row);
            if let (Some(n), Some(last_us)) =
                (self.board.n_readers.get(row), self.board.last_us.get(row))
            {
                n.fetch_add(1, Ordering::Relaxed);
                last_us.fetch_max(now, Ordering::Relaxed);
            }
        }
    }
}

/// Measures the delay of rows at many readers, and the effect of a stalled reader.
pub(crate) async fn all(bench: &Bench) -> Outcome<Vec<Row>> {
    Ok(vec![fan_out(bench).await?, burst_past_stalled_reader(bench).await?])
}

async fn fan_out(bench: &Bench) -> Outcome<Row> {
    let dataset = bench.create("stream_many", &["row", "close"]).await?;
    let follow = Request::get(&format!("/api/rows/stream/?dataset={dataset}"), &bench.key);
    let _stalled = bench.connect().await?.stall(&follow).await?;
    let board = Board::new(N_ROWS);
    let mut readers = JoinSet::new();
    for opened in 1..=N_READERS {
        let connection = bench.connect().await?;
        readers.spawn(read(connection, follow.clone(), Reader::new(&board)));
        if opened % OPENING == 0 {
            connected(&board, opened).await?;
        }
    }
    connected(&board, N_READERS).await?;
    note(&format!("{N_READERS} readers after {:.1?}", board.began.elapsed()))?;
    let mut writer = bench.connect().await?;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sent_us, cpu) = (Vec::new(), bench.cpu()?);
    for row in 0..N_ROWS {
        ticks.tick().await;
        // The delay is measured from before the commit, which is stricter than necessary.
        sent_us.push(board.now_us());
        insert(bench, &mut writer, dataset, row..row + 1).await?;
    }
    let cpu = bench.cpu()?.saturating_sub(cpu);
    settled(&board, N_READERS).await;
    readers.shutdown().await;
    let mut took: Vec<Duration> = board
        .last_us
        .iter()
        .zip(&sent_us)
        .map(|(last, sent)| {
            Duration::from_micros(last.load(Ordering::Relaxed).saturating_sub(*sent))
        })
        .collect();
    took.sort_unstable();
    let (n_lost, n_repeated) = (board.n_lost(N_READERS), board.n_repeated.load(Ordering::Relaxed));
    let (p50, p99) = (quantile(&took, 50), quantile(&took, 99));
    note(&format!(
        "{N_ROWS} rows at 10/s to {N_READERS}: {cpu:.1?} of processor time in {:.0} s",
        to_f64(N_ROWS) / 10.0
    ))?;
    let value = format!("p50 {p50:.0?}, p99 {p99:.0?}, {n_lost} lost, {n_repeated} twice");
    let is_met = p99 <= P99_BAR && n_lost == 0 && n_repeated == 0;
    let name = "stream, insert to the last of 2 000 readers, one more stalled";
    Ok(Row::new(name, value, "p99 250 ms at most, nothing lost", is_met))
}

/// Measures a burst of rows to several readers, long enough to fill the buffers of a stalled reader.
async fn burst_past_stalled_reader(bench: &Bench) -> Outcome<Row> {
    let dataset = bench.create("stream_stalled", &["row", "close"]).await?;
    let follow = Request::get(&format!("/api/rows/stream/?dataset={dataset}"), &bench.key);
    let stalled = bench.connect().await?.stall(&follow).await?;
    let n_rows = BURST_ROWS * N_BURSTS;
    let board = Board::new(n_rows);
    let mut readers = JoinSet::new();
    for _ in 0..BURST_READERS {
        readers.spawn(read(bench.connect().await?, follow.clone(), Reader::new(&board)));
    }
    connected(&board, BURST_READERS).await?;
    let mut writer = bench.connect().await?;
    let began = Instant::now();
    for burst in 0..N_BURSTS {
        let first = burst * BURST_ROWS;
        insert(bench, &mut writer, dataset, first..first + BURST_ROWS).await?;
    }
    settled(&board, BURST_READERS).await;
    let took = began.elapsed();
    let (n_lost, n_repeated) =
        (board.n_lost(BURST_READERS), board.n_repeated.load(Ordering::Relaxed));
    // The stalled reader resumes. It reads the rows that the system has buffered, then the end of the
    // stream.
    let n_stalled = timeout(ENDS_WITHIN, rest_of(stalled)).await.ok();
    readers.shutdown().await;
    note(&format!(
        "{n_rows} rows to {BURST_READERS} in {took:.1?}; bytes to the stalled reader: {n_stalled:?}"
    ))?;
    let is_cut_off = n_stalled.is_some();
    let end = if is_cut_off { "it was cut off" } else { "it was not cut off" };
    let value = format!("{n_lost} lost, {n_repeated} twice in {took:.1?}; {end}");
    let is_met = n_lost == 0 && n_repeated == 0 && is_cut_off;
    Ok(Row::new(
        "stream, 400 000 rows to 20 readers next to a stalled reader",
        value,
        "nothing lost, only the stalled reader is cut off",
        is_met,
    ))
}

/// Reads a response until it ends or its connection closes. Returns the number of bytes.
async fn rest_of(mut stream: tokio::net::TcpStream) -> usize {
    use tokio::io::AsyncReadExt as _;
    let (mut n_bytes, mut buffer) = (0, Vec::with_capacity(256 * 1024));
    loop {
        // Retains the last bytes, since the end of the response can arrive in two parts.
        let n_kept = buffer.len().min(LAST_CHUNK.len());
        buffer.drain(..buffer.len() - n_kept);
        match stream.read_buf(&mut buffer).await {
            Ok(n @ 1..) => n_bytes += n,
            _ => return n_bytes,
        }
        if buffer.ends_with(LAST_CHUNK) {
            return n_bytes;
        }
    }
}

async fn read(connection: Connection, follow: Request, mut reader: Reader) -> Outcome<()> {
    let take = &mut |bytes: &[u8]| {
        reader.take(bytes);
        true
    };
    connection.follow(&follow, take).await
}

async fn insert(
    bench: &Bench,
    writer: &mut Connection,
    dataset: i64,
    rows: std::ops::Range<usize>,
) -> Outcome<()> {
    let line = |row: usize| {
        format!("{{\"timestamp\":\"{}\",\"row\":{row},\"close\":64000.25}}\n", timestamp_of(row))
    };
    let lines = rows.map(line).collect::<Vec<_>>().concat();
    let path = format!("/api/rows/bulk_insert/?dataset={dataset}");
    let request = Request::post(&path, &bench.key, "application/x-ndjson", &lines);
    writer.send(&request).await?.ok()?;
    Ok(())
}

/// Waits until `n_readers` readers are connected.
async fn connected(board: &Board, n_readers: usize) -> Outcome<()> {
    let end = Instant::now() + WITHIN;
    while board.n_connected.load(Ordering::Relaxed) < n_readers {
        if Instant::now() > end {
            let n = board.n_connected.load(Ordering::Relaxed);
            return Err(format!("{n} of {n_readers} readers are connected").into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until all readers have received all rows, or the time limit is exceeded.
async fn settled(board: &Board, n_readers: usize) {
    let end = Instant::now() + WITHIN;
    let (mut last, mut since) = (usize::MAX, Instant::now());
    while Instant::now() < end && since.elapsed() < Duration::from_secs(5) {
        let n_lost = board.n_lost(n_readers);
        if n_lost == 0 {
            return;
        }
        if n_lost != last {
            (last, since) = (n_lost, Instant::now());
        }
        sleep(Duration::from_millis(10)).await;
    }
}
