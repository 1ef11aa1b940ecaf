//! Credits: how many slots each head may use, by what the heads want. A table of values, no I/O.
//!
//! Slots go in turn to the heads that want more, one each, and the head after the last one served is the
//! first of the next turn; what nobody wants is divided alike. A credit is taken back before another head
//! gets it: the head that loses it acknowledges the number of that change, and what it runs meanwhile
//! counts. Until it does, it is granted no more. One that does not acknowledge in time, or that is gone, has
//! lost it. Absent on purpose: how heads learn of it, which is `sharing.rs`, and how many slots strangers
//! may hold, which is `shares.rs`.

use std::{collections::BTreeMap, time::Duration};

use model::node::PeerId;
use tokio::time::Instant;

use super::shares::{Standing, part_of};
use crate::message::{Credit, Want};

/// How long a head has to acknowledge that it lost credits: many round trips. A head that is cut off
/// then keeps others from its slots no longer than this.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);

/// How long a head wants what it said: two periods of its offers. It says so again before that.
const WANTED_FOR: Duration = Duration::from_mins(1);

/// Heads that share the slots; no others have slots. More than a worker has, and few enough
/// that dividing takes no time.
const HEADS_MAX: usize = 256;

/// The heads and their credits.
#[derive(Debug)]
pub(super) struct Credits {
    heads: BTreeMap<PeerId, Share>,
    /// Numbers the changes.
    generation: u64,
    /// The position of the head that is served first in this turn.
    first: usize,
    /// The position of the one that is served first in the next turn, if some got one slot more than
    /// others in this one.
    next: Option<usize>,
}

/// What a head has and wants.
#[derive(Debug)]
struct Share {
    standing: Standing,
    /// What it wants in all; none for one that does not say, and acknowledges nothing.
    want: Option<usize>,
    /// Whether it has looked for a free slot by roll call.
    is_calling: bool,
    wanted_at: Instant,
    granted: usize,
    /// The number of the last change of what is granted.
    generation: u64,
    /// The most that it may still believe to have.
    claimed: usize,
    lowered_at: Instant,
    /// Whether it did not acknowledge its last change in time, and has not since: it may be frozen.
    is_silent: bool,
    is_sent: bool,
}

impl Credits {
    /// No heads. Changes are numbered after `generation`, which is higher each time a node starts.
    pub(super) fn new(generation: u64, first: usize) -> Self {
        Self { heads: BTreeMap::new(), generation, first, next: None }
    }

    /// Adds a head, unless it is known or there are too many. Returns whether it is known then.
    pub(super) fn join(&mut self, head: &PeerId, standing: Standing, now: Instant) -> bool {
        if let Some(share) = self.heads.get_mut(head) {
            share.standing = standing;
            return true;
        }
        if self.heads.len() >= HEADS_MAX {
            return false;
        }
        let share = Share {
            standing,
            want: None,
            is_calling: false,
            wanted_at: now,
            granted: 0,
            generation: self.generation,
            claimed: 0,
            lowered_at: now,
            is_silent: false,
            is_sent: false,
        };
        self.heads.insert(head.clone(), share);
        true
    }

    /// Keeps the heads that are meant, and takes back what the others had.
    pub(super) fn retain(&mut self, is_meant: impl Fn(&PeerId) -> bool) {
        self.heads.retain(|head, _| is_meant(head));
    }

    /// Whether heads share the slots, so that what one does matters to another.
    pub(super) fn are_shared(&self) -> bool {
        self.heads.len() > 1
    }

    /// After how long they are to be divided again if nothing happens: after `turn`, where some
    /// head has one slot more than others that want it, too, or has not acknowledged a change.
    pub(super) fn divided_for(&self, turn: Duration) -> Duration {
        let is_claimed = self.heads.values().any(Share::is_behind);
        if self.next.is_some() || is_claimed { turn } else { WANTED_FOR }
    }

    /// Begins the next turn.
    pub(super) fn next_turn(&mut self) {
        self.first = self.next.unwrap_or(self.first);
    }

    /// Takes in what a head wants, and which change it knows of.
    pub(super) fn note_want(&mut self, head: &PeerId, want: &Want, now: Instant) {
        let Some(share) = self.heads.get_mut(head) else { return };
        (share.want, share.wanted_at) = (Some(want.slots), now);
        if want.generation == share.generation {
            (share.claimed, share.is_silent) = (share.granted, false);
        }
    }

    /// Takes note that a head which holds `n_held` slots looks for one more by roll call.
    pub(super) fn note_call(&mut self, head: &PeerId, n_held: usize, now: Instant) {
        if let Some(share) = self.heads.get_mut(head) {
            (share.is_calling, share.wanted_at) = (true, now);
            share.want = share.want.map(|want| want.max(n_held + 1));
        }
    }

    /// What a head has, if it is known.
    pub(super) fn find(&self, head: &PeerId, n_slots: usize) -> Option<Credit> {
        self.heads.get(head).map(|share| share.credit(n_slots))
    }

    /// How many slots are promised to heads, of which each holds `n_held`.
    pub(super) fn n_promised(&self, n_held: impl Fn(&PeerId) -> usize) -> usize {
        self.heads.iter().map(|(head, share)| share.claimed.max(n_held(head))).sum()
    }

    /// Divides `n_free` of `n_slots` again, which are those that nobody else holds. Of these, a
    /// head holds `n_held`.
    pub(super) fn divide(
        &mut self,
        n_slots: usize,
        n_free: usize,
        n_held: impl Fn(&PeerId) -> usize,
        now: Instant,
    ) {
        for share in self.heads.values_mut() {
            share.is_silent |= share.is_behind() && now - share.lowered_at >= ACKNOWLEDGED_WITHIN;
            if share.loses_at_once() {
                share.claimed = share.granted;
            }
            if now - share.wanted_at >= WANTED_FOR {
                (share.want, share.is_calling) = (share.want.map(|_| 0), false);
            }
        }
        let held: Vec<usize> = self.heads.keys().map(n_held).collect();
        let targets = self.targets(n_slots, n_free, &held);
        let generation = &mut self.generation;
        let mut change = |share: &mut Share, granted: usize| {
            *generation += 1;
            (share.granted, share.generation, share.is_sent) = (granted, *generation, false);
        };
        for (share, target) in self.heads.values_mut().zip(&targets) {
            if *target < share.granted {
                change(share, *target);
                share.lowered_at = now;
                share.claimed = if share.loses_at_once() { *target } else { share.claimed };
            }
        }
        let promised = self.heads.values().zip(&held);
        let promised: Vec<usize> = promised.map(|(share, held)| share.claimed.max(*held)).collect();
        let n_left = n_free.saturating_sub(promised.iter().sum());
        // What a head holds, or believes to have, it has; the rest is divided.
        let wanting = self.heads.values().zip(&promised).zip(&targets);
        let wanting = wanting.map(
            |((share, has), target)| {
                if share.is_behind() { 0 } else { target.saturating_sub(*has) }
            },
        );
        let wanting: Vec<usize> = wanting.collect();
        let (added, _) = fill(n_left, &wanting, self.first);
        let raised = promised.iter().zip(added).zip(&targets);
        let raised = raised.map(|((has, added), target)| (has + added).min(*target));
        for (share, raised) in self.heads.values_mut().zip(raised) {
            if raised > share.granted && !share.is_behind() {
                change(share, raised);
                share.claimed = share.claimed.max(raised);
            }
        }
    }

    /// The heads that have not been sent their last change, with what they have. It counts as sent from
    /// here.
    pub(super) fn take_unsent(&mut self, n_slots: usize) -> Vec<(PeerId, Credit)> {
        let unsent = self.heads.iter_mut().filter(|(_, share)| !share.is_sent);
        let sent = unsent.map(|(head, share)| {
            share.is_sent = true;
            (head.clone(), share.credit(n_slots))
        });
        sent.collect()
    }

    /// What each head should have, where they hold `held`.
    fn targets(&mut self, n_slots: usize, n_free: usize, held: &[usize]) -> Vec<usize> {
        let parts: Vec<usize> = self.heads.values().map(|share| share.part(n_slots)).collect();
        let wants = self.heads.values().zip(held).zip(&parts);
        let wants = wants.map(|((share, held), part)| share.wanted(*held).min(*part));
        let wants: Vec<usize> = wants.collect();
        let n_strangers_max = part_of(Standing::Stranger, n_slots);
        let (wanted, next) = self.fill_by_standing(n_free, n_strangers_max, &wants);
        self.next = next;
        let n_left = n_free.saturating_sub(wanted.iter().sum());
        let n_strangers_max = n_strangers_max.saturating_sub(self.n_of_strangers(&wanted));
        let rest: Vec<usize> = parts.iter().zip(&wanted).map(|(part, has)| part - has).collect();
        let (rest, _) = self.fill_by_standing(n_left, n_strangers_max, &rest);
        wanted.iter().zip(rest).map(|(wanted, rest)| wanted + rest).collect()
    }

    /// Divides `n` as [`fill`] does, of which strangers get so many at most together.
    fn fill_by_standing(
        &self,
        n: usize,
        n_strangers_max: usize,
        wants: &[usize],
    ) -> (Vec<usize>, Option<usize>) {
        let (filled, next) = fill(n, wants, self.first);
        if self.n_of_strangers(&filled) <= n_strangers_max {
            return (filled, next);
        }
        let of = |is_meant: fn(Standing) -> bool| {
            let wants = self.heads.values().zip(wants);
            let wants = wants.map(|(share, want)| if is_meant(share.standing) { *want } else { 0 });
            wants.collect::<Vec<usize>>()
        };
        let strangers = of(|standing| standing == Standing::Stranger);
        let others = of(|standing| standing != Standing::Stranger);
        let (strangers, next) = fill(n_strangers_max.min(n), &strangers, self.first);
        let n_left = n - strangers.iter().sum::<usize>();
        let (others, next_of_others) = fill(n_left, &others, self.first);
        let filled = strangers.iter().zip(others).map(|(stranger, other)| stranger + other);
        (filled.collect(), next.or(next_of_others))
    }

    fn n_of_strangers(&self, of_heads: &[usize]) -> usize {
        let of_heads = self.heads.values().zip(of_heads);
        of_heads.filter(|(share, _)| share.standing == Standing::Stranger).map(|(_, n)| *n).sum()
    }
}

impl Share {
    /// How many slots it wants while it holds `n_held`. One that does not say so may want one more
    /// than it has a use for, if any.
    fn wanted(&self, n_held: usize) -> usize {
        let is_using = n_held > 0 || self.is_calling;
        self.want.unwrap_or(n_held + usize::from(is_using))
    }

    /// The most it may be granted. One that is silent keeps what it has.
    fn part(&self, n_slots: usize) -> usize {
        let part = part_of(self.standing, n_slots);
        if self.is_silent { part.min(self.granted) } else { part }
    }

    /// Whether it may believe to have more than it is granted.
    const fn is_behind(&self) -> bool {
        self.claimed > self.granted
    }

    /// Whether it has lost what is taken back without acknowledging it, which it cannot or does not.
    const fn loses_at_once(&self) -> bool {
        self.want.is_none() || self.is_silent
    }

    fn credit(&self, n_slots: usize) -> Credit {
        let slots = part_of(self.standing, n_slots);
        Credit { slots, credits: self.granted, generation: self.generation }
    }
}

/// Divides `n` by what is wanted, one each in turn, beginning at position `first`. Returns what each gets
/// and, if some got one more than others that want more, too, the position after the last of them.
fn fill(mut n: usize, wants: &[usize], first: usize) -> (Vec<usize>, Option<usize>) {
    let mut filled = vec![0; wants.len()];
    let add = |filled: &mut Vec<usize>, idx: usize, added: usize| {
        if let Some(has) = filled.get_mut(idx) {
            *has += added;
        }
    };
    loop {
        let missing = wants.iter().zip(&filled).map(|(want, has)| want - has).enumerate();
        let unmet: Vec<(usize, usize)> = missing.filter(|(_, missing)| *missing > 0).collect();
        if n == 0 || unmet.is_empty() {
            return (filled, None);
        }
        let n_each = n / unmet.len();
        if n_each == 0 {
            let start = unmet.iter().position(|(idx, _)| *idx >= first % wants.len());
            let in_turn = unmet.iter().cycle().skip(start.unwrap_or_default()).take(n);
            let mut next = first;
            for (idx, _) in in_turn {
                add(&mut filled, *idx, 1);
                next = idx + 1;
            }
            return (filled, Some(next));
        }
        for (idx, missing) in unmet {
            let added = n_each.min(missing);
            add(&mut filled, idx, added);
            n -= added;
        }
    }
}

#[cfg(test)]
mod tests;
