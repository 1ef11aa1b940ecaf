//! Permits for compilations. Clients take turns, and each has a maximum share. One permit is reserved
//! for small programs.

use std::sync::Arc;

use parking_lot::Mutex;
use task::fair_queue::{FairQueue, Grants, Verdict};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compilation {
    /// Client that requested the compilation.
    pub(super) client: Arc<str>,
    pub(super) size: CompileSize,
    /// Expected memory, in bytes.
    pub(super) memory_bytes: u64,
}

/// The permits and the compilations that wait for them. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct CompilePermits(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Maximum expected memory of all concurrent compilations of large programs.
    memory_bytes_max: u64,
    state: Mutex<PermitTable>,
}

#[derive(Debug, Default)]
struct PermitTable {
    running: Vec<Compilation>,
    /// Waiting compilations of large programs. They are served before small programs, which could
    /// otherwise delay them endlessly.
    large: FairQueue<Arc<str>, Compilation, CompilePermit>,
    small: FairQueue<Arc<str>, Compilation, CompilePermit>,
}

/// Permit for one compilation. Released on drop.
#[derive(Debug)]
pub(super) struct CompilePermit {
    permits: CompilePermits,
    compilation: Compilation,
}

impl CompilePermits {
    /// Returns the permits of a machine with `memory_bytes` of memory.
    pub(super) fn of_machine(memory_bytes: u64) -> Self {
        let memory_bytes_max = memory_bytes / MEMORY_SHARE;
        Self(Arc::new(Inner { memory_bytes_max, state: Mutex::default() }))
    }

    /// Waits until a permit is free and it is the client's turn. Cancel-safe.
    pub(super) async fn acquire(&self, compilation: Compilation) -> Option<CompilePermit> {
        let granted = {
            let mut state = self.0.state.lock();
            let queue = match compilation.size {
                CompileSize::Large => &mut state.large,
                CompileSize::Small => &mut state.small,
            };
            queue.push(Arc::clone(&compilation.client), compilation)
        };
        self.grant();
        // Always `Some`, since a waiting compilation is only removed when it gets its permit.
        granted.await.ok()
    }

    fn grant(&self) {
        let mut state = self.0.state.lock();
        let PermitTable { running, large, small } = &mut *state;
        let mut visit = |_: &Arc<str>, compilation: &Compilation| {
            if !compilation.can_start(running, self.0.memory_bytes_max) {
                return Verdict::Waits;
            }
            running.push(compilation.clone());
            let (permits, compilation) = (self.clone(), compilation.clone());
            Verdict::Served(CompilePermit { permits, compilation })
        };
        let grants = [large.serve(&mut visit), small.serve(&mut visit)];
        // A permit whose receiver was dropped locks the state again.
        drop(state);
        grants.into_iter().for_each(Grants::send);
    }
}

impl Compilation {
    /// Returns true if this compilation can start while `running` are in progress.
    fn can_start(&self, running: &[Self], memory_bytes_max: u64) -> bool {
        let is_own = |other: &Self| other.client == self.client;
        let large = running.iter().filter(|other| other.size == CompileSize::Large);
        let large: Vec<&Self> = large.collect();
        let memory = large.iter().map(|other| other.memory_bytes);
        let memory_bytes = memory.fold(self.memory_bytes, u64::saturating_add);
        running.len() < CHILDREN_MAX
            && running.iter().filter(|other| is_own(other)).count() + 1 < CHILDREN_MAX
            && (self.size == CompileSize::Small
                || large.is_empty()
                || large.len() < LARGE_MAX
                    && large.iter().filter(|other| is_own(other)).count() < LARGE_OF_CLIENT_MAX
                    && memory_bytes <= memory_bytes_max)
    }
}

impl Drop for CompilePermit {
    fn drop(&mut self) {
        let mut state = self.permits.0.state.lock();
        if let Some(idx) = state.running.iter().position(|running| *running == self.compilation) {
            state.running.swap_remove(idx);
        }
        drop(state);
        self.permits.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;

    fn compilation(client: &str, size: CompileSize) -> Compilation {
        Compilation { client: client.into(), size, memory_bytes: 1 }
    }

    fn try_take(
        permits: &CompilePermits,
        client: &str,
        size: CompileSize,
    ) -> Option<CompilePermit> {
        permits.acquire(compilation(client, size)).now_or_never().flatten()
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
        assert!(permits.0.state.lock().running.is_empty(), "released on drop");
    }

    #[test]
    fn large_programs_are_compiled_concurrently_only_if_they_fit_in_memory() {
        let permits = CompilePermits::of_machine(10 * MEMORY_SHARE);
        let take = |client: &str, memory_bytes| {
            let large = compilation(client, CompileSize::Large);
            permits.acquire(Compilation { memory_bytes, ..large }).now_or_never().flatten()
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
    async fn served(clients: &[&'static str]) -> Vec<&'static str> {
        let permits = CompilePermits::of_machine(u64::MAX);
        let taken = |n: usize| try_take(&permits, &format!("before {n}"), CompileSize::Large);
        let mut before: Vec<_> = (0..LARGE_MAX).map(|n| taken(n).unwrap()).collect();
        let order = Mutex::new(Vec::new());
        let mut all = join_all(clients.iter().map(async |client| {
            let permit = permits.acquire(compilation(client, CompileSize::Large)).await;
            order.lock().push(*client);
            drop(permit);
        }));
        assert!((&mut all).now_or_never().is_none(), "all wait");
        // Frees one permit.
        before.pop();
        all.await;
        order.into_inner()
    }

    #[tokio::test]
    async fn clients_take_turns_and_programs_of_one_client_compile_in_order() {
        assert_eq!(served(&["a"; 3]).await, ["a"; 3]);
        assert_eq!(served(&["a", "a", "a", "a", "b"]).await[..2], ["a", "b"]);
    }

    #[test]
    fn large_program_is_served_before_further_small_programs() {
        let permits = CompilePermits::of_machine(u64::MAX);
        let take = |client: &str, size| try_take(&permits, client, size);
        let small: Vec<_> =
            (0..9).filter_map(|n| take(&n.to_string(), CompileSize::Small)).collect();
        assert_eq!(small.len(), CHILDREN_MAX);
        let mut large = Box::pin(permits.acquire(compilation("b", CompileSize::Large)));
        assert!((&mut large).now_or_never().is_none());
        let mut small = small;
        small.truncate(2);
        assert!(large.now_or_never().is_some());
    }
}
