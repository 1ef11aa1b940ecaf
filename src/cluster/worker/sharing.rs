//! Sharing the slots out among heads: what they say they want, and sending them what they get.
//!
//! A head learns on its line at once, if it has one, and otherwise by its next offer. How many each
//! gets is decided in `credits.rs`.

use std::{sync::atomic::Ordering, time::Duration};

use model::node::PeerId;
use tokio::{
    select,
    time::{Instant, sleep},
};
use tracing::debug;

use super::Worker;
use crate::{
    message::{Credit, Want, frame, json},
    network::line::{Frame, Line},
};

/// How long a turn takes, where heads want more slots than there are and these cannot be divided alike.
/// A head without a slot waits no longer than some turns, and each costs two messages and their
/// acknowledgments.
const TURN: Duration = Duration::from_millis(250);

impl Worker {
    /// What `head` may use of the slots: as many as it could run at once, and how many of these it has
    /// credits for; none once this worker is stopping. It has none at all if it is not obeyed.
    #[must_use]
    pub fn credit_for(&self, head: &PeerId) -> Credit {
        let network = &self.0.context.network;
        if !network.hears(head) {
            return Credit::default();
        }
        let (standing, n_slots) = (self.standing(head), usize::from(self.0.n_slots));
        let (slots, n_free) = self.0.slots.places_for(head, standing);
        let is_stopping = self.0.is_stopping.load(Ordering::Relaxed);
        if is_stopping {
            return Credit { slots, ..Credit::default() };
        }
        if self.0.context.peers.is_connected_head(head) {
            let is_known = self.0.credits.lock().join(head, standing, Instant::now());
            if is_known {
                self.divide();
                let credit = self.0.credits.lock().find(head, n_slots);
                return credit.unwrap_or_default();
            }
        }
        // One that has not said yet what it is gets what is left.
        let n_promised = self.0.credits.lock().n_promised(|head| self.n_held(head));
        let n_left = self.n_free_of_heads().saturating_sub(n_promised);
        Credit { slots, credits: n_free.min(n_left), generation: 0 }
    }

    /// Takes in what `head` wants, and which credits it knows of.
    pub(super) fn note_want(&self, head: &PeerId, content: &[u8]) {
        match serde_json::from_slice::<Want>(content) {
            Ok(want) => {
                self.0.credits.lock().note_want(head, &want, Instant::now());
                self.0.shared.notify_one();
            }
            Err(error) => {
                self.0.context.network.blame(head);
                debug!(peer = %head, %error, "dropped what a head wants");
            }
        }
    }

    /// Takes note that `head` looks for a free slot by roll call.
    pub(super) fn note_call(&self, head: &PeerId) {
        self.0.credits.lock().note_call(head, self.n_held(head), Instant::now());
        self.0.shared.notify_one();
    }

    /// Takes back the credits of a head that is gone.
    pub(crate) fn note_disconnected(&self, head: &PeerId) {
        self.0.credits.lock().retain(|known| known != head);
        self.0.shared.notify_one();
    }

    /// Takes note that an order has come or gone, on which the credits of other heads may depend.
    pub(super) fn note_order(&self) {
        if self.0.credits.lock().are_shared() {
            self.0.shared.notify_one();
        }
    }

    /// Shares the slots out again whenever that may change, and notifies heads on their lines. Runs
    /// until it is dropped.
    pub(super) async fn share_slots(self) {
        let mut turn_ends = Instant::now() + TURN;
        loop {
            let wait = self.0.credits.lock().divided_for(TURN);
            select! {
                () = self.0.shared.notified() => {}
                () = sleep(wait) => {}
            }
            if turn_ends <= Instant::now() {
                turn_ends = Instant::now() + TURN;
                self.0.credits.lock().next_turn();
            }
            self.divide();
            let unsent = self.0.credits.lock().take_unsent(self.0.n_slots.into());
            if unsent.is_empty() {
                continue;
            }
            for (head, credit) in &unsent {
                if let Some(line) = self.line_of(head) {
                    let content = json(credit).into();
                    line.try_send(Frame { kind: frame::CREDIT, content });
                }
            }
            // The others learn of it by their next offer.
            self.0.changed.notify_one();
        }
    }

    /// Divides the slots among the heads that are obeyed.
    fn divide(&self) {
        let (n_slots, n_free) = (usize::from(self.0.n_slots), self.n_free_of_heads());
        let mut credits = self.0.credits.lock();
        credits.retain(|head| self.0.context.network.hears(head));
        credits.divide(n_slots, n_free, |head| self.n_held(head), Instant::now());
    }

    /// How many slots are not taken by what has been given up on but has not ended.
    fn n_free_of_heads(&self) -> usize {
        let n_slots = usize::from(self.0.n_slots);
        let n_taken = n_slots.saturating_sub(self.0.executor.n_free());
        n_slots.saturating_sub(n_taken.saturating_sub(self.0.slots.holders.total()))
    }

    /// How many orders of `head` are here, those that wait for a slot among them.
    fn n_held(&self, head: &PeerId) -> usize {
        self.0.orders.holders.count(head)
    }

    fn line_of(&self, head: &PeerId) -> Option<Line> {
        self.0.lines.lock().get(head).map(|open| open.line.clone())
    }
}
