//! Permits for compilations. Clients take turns, and each has a maximum share. One permit is reserved
//! for small programs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::single_flight::WANTED_EVERY;

/// Maximum number of concurrent compilations. Each needs several processors and up to a few gigabytes.
const CHILDREN_MAX: usize = 4;

/// Maximum number of concurrent compilations of large programs. The remaining permit is for small
/// programs, which take a fraction of a second.
const LARGE_MAX: usize = CHILDREN_MAX - 1;

/// Maximum number of concurrent compilations of large programs of one client. The remaining permit is
/// for the next client.
const LARGE_OF_CLIENT_MAX: usize = LARGE_MAX - 1;

/// Divisor of the machine's memory that gives the maximum expected memory of large programs that are
/// compiled concurrently. The rest is left to runs, files and other processes. A single program is
/// always compiled.
const MEMORY_SHARE: u64 = 2;

/// Expected cost of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompileSize {
    Small,
    Large,
}

/// A compilation that needs a permit.
#[derive(Debug, Clone)]
pub(super) struct Compilation {
    /// Client that requested the compilation.
    pub(super) client: Arc<str>,
    pub(super) size: CompileSize,
    /// Expected memory, in bytes.
    pub(super) memory_bytes: u64,
    /// True if a program of the client recently exceeded a limit. The client's programs are then
    /// compiled one at a time.
    pub(super) is_suspect: bool,
}

/// The permits and the threads that wait for them.
#[derive(Debug)]
pub(super) struct CompilePermits {
    /// Maximum expected memory of all concurrent compilations of large programs.
    memory_bytes_max: u64,
    state: Mutex<PermitTable>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PermitTable {
    /// Compilations with a permit, each with its ticket.
    running: Vec<(u64, Compilation)>,
    /// Compilations without a permit, each with its ticket.
    waiting: Vec<(u64, Compilation)>,
    /// Latest ticket of each client with running or waiting compilations.
    last_served: HashMap<Arc<str>, u64>,
    next_ticket: u64,
}

/// Permit for one compilation, released on drop.
#[derive(Debug)]
pub(super) struct CompilePermit<'a> {
    permits: &'a CompilePermits,
    ticket: u64,
}

impl CompilePermits {
    /// Returns the permits of a machine with `memory_bytes` of memory.
    pub(super) fn of_machine(memory_bytes: u64) -> Self {
        Self {
            memory_bytes_max: memory_bytes / MEMORY_SHARE,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Blocks until a permit is free and it is the client's turn. Returns `None` once `is_wanted`
    /// returns false.
    pub(super) fn acquire(
        &self,
        compilation: Compilation,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<CompilePermit<'_>> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push((ticket, compilation.clone()));
        loop {
            if state.has_free(compilation.size)
                && state.has_memory(&compilation, self.memory_bytes_max)
                && state.next(compilation.size) == Some(ticket)
            {
                state.leave(ticket);
                // Larger than the tickets of all earlier requests, so that the other clients precede
                // this client.
                let now = state.next_ticket;
                state.last_served.insert(Arc::clone(&compilation.client), now);
                state.next_ticket += 1;
                state.running.push((ticket, compilation));
                self.changed.notify_all();
                return Some(CompilePermit { permits: self, ticket });
            }
            self.changed.wait_for(&mut state, WANTED_EVERY);
            if !is_wanted() {
                state.leave(ticket);
                self.changed.notify_all();
                return None;
            }
        }
    }
}

impl PermitTable {
    /// Returns true if a permit is free. While large programs wait for a permit, small programs may only
    /// use the reserved permit.
    fn has_free(&self, size: CompileSize) -> bool {
        self.running.len() < CHILDREN_MAX
            && match size {
                CompileSize::Small => {
                    self.n_running(CompileSize::Small) == 0
                        || self.next(CompileSize::Large).is_none()
                }
                CompileSize::Large => self.n_running(CompileSize::Large) < LARGE_MAX,
            }
    }

    /// Returns true if `compilation` is small, or its expected memory fits in `bytes_max` together with
    /// the running compilations of large programs.
    fn has_memory(&self, compilation: &Compilation, bytes_max: u64) -> bool {
        let large = self.running.iter().filter(|(_, running)| running.size == CompileSize::Large);
        let taken = large.map(|(_, running)| running.memory_bytes).reduce(u64::saturating_add);
        compilation.size == CompileSize::Small
            || taken.is_none_or(|taken| taken.saturating_add(compilation.memory_bytes) <= bytes_max)
    }

    fn n_running(&self, size: CompileSize) -> usize {
        self.running.iter().filter(|(_, running)| running.size == size).count()
    }

    /// Returns the ticket to be served next. It belongs to the client with the fewest running
    /// compilations; among several such clients, to the least recently served. `None` if no client can
    /// have another permit.
    fn next(&self, size: CompileSize) -> Option<u64> {
        let of_size = self.waiting.iter().filter(|(_, waiting)| waiting.size == size);
        let eligible = of_size.filter(|(_, waiting)| self.may_have_more(waiting));
        let first = eligible.min_by_key(|(ticket, waiting)| {
            let n_own = self.of_client(&waiting.client).count();
            (n_own, self.last_served.get(&waiting.client).copied(), *ticket)
        });
        first.map(|(ticket, _)| *ticket)
    }

    fn may_have_more(&self, compilation: &Compilation) -> bool {
        let n_own = self.of_client(&compilation.client).count();
        let own = self.of_client(&compilation.client);
        let n_large = own.filter(|running| running.size == CompileSize::Large).count();
        let n_large_max = if compilation.is_suspect { 1 } else { LARGE_OF_CLIENT_MAX };
        n_own + 1 < CHILDREN_MAX
            && (compilation.size == CompileSize::Small || n_large < n_large_max)
    }

    fn of_client(&self, client: &Arc<str>) -> impl Iterator<Item = &Compilation> {
        let running = self.running.iter().map(|(_, running)| running);
        running.filter(move |running| running.client == *client)
    }

    /// Removes a compilation, and its client if it has no other.
    fn leave(&mut self, ticket: u64) {
        let Self { running, waiting, last_served, .. } = self;
        running.retain(|(other, _)| *other != ticket);
        waiting.retain(|(other, _)| *other != ticket);
        last_served.retain(|client, _| {
            running.iter().chain(&*waiting).any(|(_, it)| it.client == *client)
        });
    }
}

impl Drop for CompilePermit<'_> {
    fn drop(&mut self) {
        self.permits.state.lock().leave(self.ticket);
        self.permits.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn compilation(client: &str, size: CompileSize) -> Compilation {
        Compilation { client: client.into(), size, memory_bytes: 1, is_suspect: false }
    }

    fn try_take<'a>(
        permits: &'a CompilePermits,
        client: &str,
        size: CompileSize,
    ) -> Option<CompilePermit<'a>> {
        permits.acquire(compilation(client, size), &|| false)
    }

    #[test]
    fn small_program_is_compiled_concurrently_with_large_programs() {
        let permits = CompilePermits::of_machine(u64::MAX);
        let large: Vec<_> =
            (0..9).filter_map(|n| try_take(&permits, &n.to_string(), CompileSize::Large)).collect();
        assert_eq!(large.len(), LARGE_MAX);
        let small = try_take(&permits, "a", CompileSize::Small);
        assert!(small.is_some());
        assert!(try_take(&permits, "a", CompileSize::Small).is_none());
        drop(large);
        assert!(try_take(&permits, "a", CompileSize::Small).is_some());
    }

    #[test]
    fn client_cannot_take_all_compile_permits_for_small_or_for_large_programs() {
        let permits = CompilePermits::of_machine(u64::MAX);
        let take = |client: &str, size| try_take(&permits, client, size);
        let mut own: Vec<_> = (0..9).filter_map(|_| take("bombs", CompileSize::Large)).collect();
        assert_eq!(own.len(), LARGE_OF_CLIENT_MAX);
        own.extend((0..9).filter_map(|_| take("bombs", CompileSize::Small)));
        assert_eq!(own.len(), CHILDREN_MAX - 1);
        assert!(take("other", CompileSize::Large).is_some());
        drop(own);
        let suspect =
            || Compilation { is_suspect: true, ..compilation("bombs", CompileSize::Large) };
        let first = permits.acquire(suspect(), &|| false);
        assert!(first.is_some() && permits.acquire(suspect(), &|| false).is_none());
        drop(first);
        assert!(permits.state.lock().last_served.is_empty(), "nothing is kept of idle clients");
    }

    #[test]
    fn large_programs_are_compiled_concurrently_only_if_they_fit_in_memory() {
        let permits = CompilePermits::of_machine(10 * MEMORY_SHARE);
        let take = |client: &str, memory_bytes| {
            let large = compilation(client, CompileSize::Large);
            permits.acquire(Compilation { memory_bytes, ..large }, &|| false)
        };
        let alone = take("a", 40);
        assert!(alone.is_some(), "a program that is larger than the memory is compiled alone");
        assert!(take("b", 1).is_none());
        assert!(try_take(&permits, "b", CompileSize::Small).is_some());
        drop(alone);
        let (first, second) = (take("a", 6), take("b", 4));
        assert!(first.is_some() && second.is_some() && take("c", 1).is_none());
        drop(second);
        assert!(take("c", 4).is_some());
    }

    /// Returns the order in which large programs of these clients are served.
    fn served(clients: &[&'static str]) -> Vec<&'static str> {
        let permits = CompilePermits::of_machine(u64::MAX);
        let taken = |n: usize| try_take(&permits, &format!("before {n}"), CompileSize::Large);
        let mut before: Vec<_> = (0..LARGE_MAX).map(|n| taken(n).unwrap()).collect();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for (number, client) in clients.iter().enumerate() {
                let (permits, sender) = (&permits, sender.clone());
                scope.spawn(move || {
                    let permit = permits.acquire(compilation(client, CompileSize::Large), &|| true);
                    sender.send(*client).unwrap();
                    drop(permit);
                });
                while permits.state.lock().waiting.len() <= number {
                    thread::yield_now();
                }
            }
            // Frees one permit.
            before.pop();
            receiver.iter().take(clients.len()).collect()
        })
    }

    #[test]
    fn clients_take_turns_and_programs_of_one_client_compile_in_order() {
        assert_eq!(served(&["a"; 3]), ["a"; 3]);
        assert_eq!(served(&["a", "a", "a", "a", "b"])[..2], ["a", "b"]);
    }

    #[test]
    fn large_program_is_served_before_further_small_programs() {
        let permits = CompilePermits::of_machine(u64::MAX);
        let take = |client: &str, size| try_take(&permits, client, size);
        let small: Vec<_> =
            (0..9).filter_map(|n| take(&n.to_string(), CompileSize::Small)).collect();
        assert_eq!(small.len(), CHILDREN_MAX);
        thread::scope(|scope| {
            let large =
                scope.spawn(|| permits.acquire(compilation("b", CompileSize::Large), &|| true));
            while permits.state.lock().waiting.is_empty() {
                thread::yield_now();
            }
            let mut small = small;
            small.truncate(2);
            drop(small);
            assert!(large.join().unwrap().is_some());
        });
    }
}
