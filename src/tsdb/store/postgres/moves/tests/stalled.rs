//! A mover that stalls while it receives rows keeps no others from its dataset.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use parking_lot::Condvar;

use super::*;

/// The tag of a message of PostgreSQL with rows of `COPY`.
const COPY_DATA: u8 = b'd';

/// A proxy of a server, in which rows of a table stall that are copied out.
#[derive(Debug)]
struct Proxy {
    address: SocketAddr,
    /// Whether rows came.
    is_stalled: AtomicBool,
    /// Whether they go on.
    is_released: Mutex<bool>,
    released: Condvar,
}

impl Proxy {
    fn start(server: &str, table: &'static str) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (is_stalled, is_released, released) = Default::default();
        let proxy = Arc::new(Self { address, is_stalled, is_released, released });
        let (server, serving) = (server.to_owned(), Arc::clone(&proxy));
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, proxy) = (client.unwrap(), Arc::clone(&serving));
                let server = TcpStream::connect(&server).unwrap();
                let is_copied = Arc::new(AtomicBool::new(false));
                let sent =
                    Link { from: client.try_clone().unwrap(), to: server.try_clone().unwrap() };
                let received = Link { from: server, to: client };
                let noted = Arc::clone(&is_copied);
                thread::spawn(move || sent.forward_statements(table, &noted));
                thread::spawn(move || received.forward_messages(&proxy, &is_copied));
            }
        });
        proxy
    }
}

/// One direction of a connection.
#[derive(Debug)]
struct Link {
    from: TcpStream,
    to: TcpStream,
}

impl Link {
    /// Forwards statements, and notes one that copies rows of `table`.
    fn forward_statements(mut self, table: &str, is_copied: &AtomicBool) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(n @ 1..) = self.from.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..n]);
            if text.contains("COPY") && text.contains(&format!("FROM {table} ")) {
                is_copied.store(true, Ordering::SeqCst);
            }
            if self.to.write_all(&bytes[..n]).is_err() {
                return;
            }
        }
    }

    /// Forwards messages of the server, and stalls at rows of the table.
    fn forward_messages(mut self, proxy: &Proxy, is_copied: &AtomicBool) {
        let mut from = BufReader::new(&self.from);
        while from.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            let mut head = [0; 5];
            from.read_exact(&mut head).unwrap();
            let n = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; usize::try_from(n).unwrap() - 4];
            from.read_exact(&mut body).unwrap();
            if head[0] == COPY_DATA && is_copied.load(Ordering::SeqCst) {
                proxy.is_stalled.store(true, Ordering::SeqCst);
                proxy
                    .released
                    .wait_while(&mut proxy.is_released.lock(), |is_released| !*is_released);
            }
            if self.to.write_all(&[&head[..], &body].concat()).is_err() {
                return;
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_mover_that_stalls_while_it_receives_rows_keeps_no_others_out() {
    for table in LOGS.into_iter().chain(["tail", "buckets"]) {
        let urls = new_servers();
        let store = open(&urls[0]);
        let (id, mut want) = create_unsettled(&store, table).await;
        assert!(store.move_dataset(id, "second", ignore_progress()).await.unwrap());
        let set_address = |address: &str| {
            run(&urls[0], &format!("UPDATE datasets.stores SET url = '{address}' WHERE id = 1"));
        };
        let (server, database) = urls[1].rsplit_once('/').unwrap();
        let (_, server) = server.rsplit_once('@').unwrap();
        let proxy = Proxy::start(server, table);
        let address = proxy.address;
        set_address(&format!("postgres://postgres@{address}/{database}?sslmode=disable"));
        let stalled = open(&urls[0]);
        let moved = stalled.move_dataset(id, "third", ignore_progress());
        let look = || async {
            proxy.is_stalled.load(Ordering::SeqCst).then_some(()).ok_or("no rows came")
        };
        wait::until(Duration::from_secs(30), look).await.unwrap();
        set_address(&urls[1]);
        let other = open(&urls[0]);
        let done = other.move_dataset(id, "third", ignore_progress()).await;
        assert!(done.unwrap_or_else(|error| panic!("{table}: {error}")));
        let row = [(9_000_000, 1.0)];
        contract::append(&other, id, contract::block(row)).await;
        want.extend(row);
        *proxy.is_released.lock() = true;
        proxy.released.notify_all();
        assert!(moved.await.unwrap(), "{table}: it was moved by others");
        contract::compare(&other, id, &want, &[]);
    }
}
