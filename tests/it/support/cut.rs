//! A proxy that loses an answer: what was asked is done, and nobody is told.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// A proxy in front of a server. It ends with the process.
pub(crate) struct Cut {
    /// Where it listens, `host:port`.
    pub(crate) address: String,
    is_cut: Arc<AtomicBool>,
}

/// One connection through the proxy.
#[derive(Clone)]
struct Line {
    /// What its caller says before the answer that is lost, in this order.
    marks: &'static [&'static str],
    /// Whether the next answer is lost.
    is_marked: Arc<AtomicBool>,
    /// Whether one was lost, on this connection or another.
    is_cut: Arc<AtomicBool>,
}

impl Cut {
    /// Passes on what comes to the server at `to`, `host:port`. The first time that a caller has said
    /// all of `marks`, the connection is cut once the server answers the last of them.
    pub(crate) fn before(to: &str, marks: &'static [&'static str]) -> Self {
        let to = to.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Self { address, is_cut: Arc::clone(&is_cut) };
        thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&to).unwrap();
                let line = Line { marks, is_marked: Arc::default(), is_cut: Arc::clone(&is_cut) };
                let asking = line.clone();
                let answers = server.try_clone().unwrap();
                let back = caller.try_clone().unwrap();
                thread::spawn(move || drop(asking.pass_questions(caller, server)));
                thread::spawn(move || drop(line.pass_answers(answers, back)));
            }
        });
        cut
    }

    /// Whether it has lost its answer.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}

impl Line {
    fn pass_questions(&self, mut caller: TcpStream, mut server: TcpStream) -> std::io::Result<()> {
        let mut marks = self.marks;
        let mut said: Vec<u8> = Vec::new();
        let mut chunk = [0; 16 * 1024];
        loop {
            let n_read = caller.read(&mut chunk)?;
            if n_read == 0 {
                return server.shutdown(Shutdown::Write);
            }
            said.extend(&chunk[..n_read]);
            while let Some((mark, rest)) = marks.split_first() {
                let place = said.windows(mark.len()).position(|part| part == mark.as_bytes());
                let Some(place) = place else { break };
                said.drain(..place + mark.len());
                marks = rest;
                if marks.is_empty() {
                    self.is_marked.store(true, Ordering::SeqCst);
                }
            }
            server.write_all(&chunk[..n_read])?;
        }
    }

    fn pass_answers(&self, mut server: TcpStream, mut caller: TcpStream) -> std::io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let n_read = server.read(&mut chunk)?;
            if n_read == 0 {
                return caller.shutdown(Shutdown::Write);
            }
            let is_marked = self.is_marked.swap(false, Ordering::SeqCst);
            if is_marked && !self.is_cut.swap(true, Ordering::SeqCst) {
                server.shutdown(Shutdown::Both)?;
                return caller.shutdown(Shutdown::Both);
            }
            caller.write_all(&chunk[..n_read])?;
        }
    }
}
