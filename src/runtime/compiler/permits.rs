//! Permits to compile, first come first served, with one kept for small programs.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use super::WANTED_EVERY;

/// Children that compile at once. Each takes several processors and up to some gigabytes.
const CHILDREN_MAX: usize = 4;

/// Of these, children that compile large programs: one permit is left for small programs, which
/// take a fraction of a second.
const LARGE_MAX: usize = CHILDREN_MAX - 1;

/// How much a program is expected to cost to compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompileSize {
    Small,
    Large,
}

/// The permits, and the queues of threads that wait for them.
#[derive(Debug, Default)]
pub(super) struct CompilePermits {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    small: Queue,
    large: Queue,
    next_ticket: u64,
}

/// The programs of one size.
#[derive(Debug, Default)]
struct Queue {
    n_running: usize,
    /// One ticket per waiting thread, the first to be served in front.
    waiting: VecDeque<u64>,
}

/// Allows compiling one program, until it is dropped.
#[derive(Debug)]
pub(super) struct CompilePermit<'a> {
    permits: &'a CompilePermits,
    size: CompileSize,
}

impl CompilePermits {
    /// Blocks until a permit is free and no earlier program of this size waits. `None` once
    /// `is_wanted` returns false.
    pub(super) fn acquire(
        &self,
        size: CompileSize,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<CompilePermit<'_>> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue(size).waiting.push_back(ticket);
        loop {
            let has_permit = state.has_free(size);
            let queue = state.queue(size);
            if has_permit && queue.waiting.front() == Some(&ticket) {
                queue.waiting.pop_front();
                queue.n_running += 1;
                self.changed.notify_all();
                return Some(CompilePermit { permits: self, size });
            }
            self.changed.wait_for(&mut state, WANTED_EVERY);
            if !is_wanted() {
                state.queue(size).waiting.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                return None;
            }
        }
    }
}

impl State {
    const fn queue(&mut self, size: CompileSize) -> &mut Queue {
        match size {
            CompileSize::Small => &mut self.small,
            CompileSize::Large => &mut self.large,
        }
    }

    /// Small programs use any free permit while no large one waits, and otherwise only their own.
    fn has_free(&self, size: CompileSize) -> bool {
        let is_any_free = self.small.n_running + self.large.n_running < CHILDREN_MAX;
        is_any_free
            && match size {
                CompileSize::Small => self.small.n_running == 0 || self.large.waiting.is_empty(),
                CompileSize::Large => self.large.n_running < LARGE_MAX,
            }
    }
}

impl Drop for CompilePermit<'_> {
    fn drop(&mut self) {
        self.permits.state.lock().queue(self.size).n_running -= 1;
        self.permits.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    #[test]
    fn a_small_program_compiles_beside_any_number_of_large_ones() {
        let permits = CompilePermits::default();
        let acquire = |size| permits.acquire(size, &|| false);
        let large: Vec<_> = (0..9).filter_map(|_| acquire(CompileSize::Large)).collect();
        assert_eq!(large.len(), LARGE_MAX);
        let small = acquire(CompileSize::Small);
        assert!(small.is_some());
        assert!(acquire(CompileSize::Small).is_none());
        drop(large);
        assert!(acquire(CompileSize::Small).is_some());
    }

    #[test]
    fn large_programs_are_served_in_their_order_and_before_more_small_ones() {
        let permits = CompilePermits::default();
        let acquire = |size| permits.acquire(size, &|| false);
        let mut small: Vec<_> = (0..9).filter_map(|_| acquire(CompileSize::Small)).collect();
        assert_eq!(small.len(), CHILDREN_MAX);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for number in 0..5 {
                let (permits, sender) = (&permits, sender.clone());
                scope.spawn(move || {
                    let permit = permits.acquire(CompileSize::Large, &|| true);
                    sender.send(number).unwrap();
                    drop(permit);
                });
                while permits.state.lock().large.waiting.len() <= number {
                    thread::yield_now();
                }
            }
            // Room for one: they are served one after the other.
            small.pop();
            assert_eq!(receiver.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
    }
}
