//! Keeps a copy up to date with the stream of the source.
//!
//! The stream is opened before existing rows are copied, so that no row is missed. Its rows wait in the
//! meantime or are requested again by the id of their event.

use std::time::Duration;

use anyhow::{Context as _, bail};
use client::stream::StreamEvent;
use client::stream::resume::{self, Repeats, ResumeFrom, RowBatch, RowEvent};
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::copy::{Comparison, Copy};

/// Maximum number of batches of rows that wait. The source is slowed down when they are full.
const EVENTS_CAPACITY: usize = 8;

/// Time limit of the first row of the stream of a dataset with rows.
const BEGINS_WITHIN: Duration = Duration::from_mins(1);

/// Stream of a dataset that is being copied.
pub(super) struct LiveCopy {
    events: mpsc::Receiver<RowEvent>,
    /// Event that was received before the existing rows were copied.
    first: Option<RowEvent>,
    /// Stops the stream.
    group: Group,
}

impl LiveCopy {
    /// Opens the stream of the source where an earlier mirror stopped, or at its latest rows.
    ///
    /// # Errors
    /// An error if it does not open.
    pub(super) async fn begin(copy: &mut Copy, group: &Group) -> anyhow::Result<Self> {
        let (sender, mut events) = mpsc::channel(EVENTS_CAPACITY);
        let last_event_id = copy.checkpoint.last_event_id.clone();
        let is_resumed = last_event_id.is_some();
        let newest = if is_resumed { copy.newest_copied().await? } else { None };
        let resume_from = ResumeFrom { newest, last_event_id, repeats: Repeats::Give };
        let (source, dataset) = (copy.mirror.source.clone(), copy.dataset.id);
        let group = group.child();
        group.spawn("follow a dataset", resume::follow(source, dataset, resume_from, sender));
        let mut first = None;
        if !is_resumed {
            // The rows before the event that is recorded below are copied afterwards.
            copy.checkpoint.is_whole = false;
            let has_rows = copy.newest().await?.is_some();
            first =
                wait_for_first(&mut events, has_rows).await.context("cannot open the stream")?;
            if let Some(StreamEvent::Item(RowBatch { last_event_id, .. })) = &first {
                // From here on, the stream delivers late rows, too.
                copy.checkpoint.last_event_id.clone_from(last_event_id);
                copy.write_checkpoint()?;
            }
        }
        Ok(Self { events, first, group })
    }

    /// Stores the rows of the stream until the source refuses permanently.
    pub(super) async fn run(mut self, mut copy: Copy) {
        let mut is_lost = false;
        let mut first = self.first.take();
        loop {
            let event = match first.take() {
                Some(event) => Some(event),
                None => self.events.recv().await,
            };
            let Some(event) = event else { break };
            if let Err(error) = take(&mut copy, event, &mut is_lost).await {
                copy.note(&format!("{} is no longer updated: {error:#}", copy.name()));
                break;
            }
        }
        self.group.shutdown().await;
    }
}

impl Drop for LiveCopy {
    fn drop(&mut self) {
        self.group.stop();
    }
}

/// Waits until the stream is open and, if there are rows, has delivered the first one.
async fn wait_for_first(
    events: &mut mpsc::Receiver<RowEvent>,
    has_rows: bool,
) -> anyhow::Result<Option<RowEvent>> {
    let deadline = Instant::now() + BEGINS_WITHIN;
    loop {
        match timeout_at(deadline, events.recv()).await {
            Ok(Some(StreamEvent::Connected)) if !has_rows => return Ok(None),
            Ok(Some(event @ StreamEvent::Item(_))) => return Ok(Some(event)),
            Ok(Some(StreamEvent::Lost { why, .. })) if is_final(why.status()) => {
                return Err(why.into());
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => bail!("received no rows within {} s", BEGINS_WITHIN.as_secs()),
        }
    }
}

/// Returns true if a retry cannot succeed.
const fn is_final(status: Option<u16>) -> bool {
    matches!(status, Some(401 | 403 | 404))
}

async fn take(copy: &mut Copy, event: RowEvent, is_lost: &mut bool) -> anyhow::Result<()> {
    match event {
        StreamEvent::Item(RowBatch { rows, last_event_id }) => {
            copy.store_live(rows, last_event_id).await?;
        }
        StreamEvent::Connected if *is_lost => {
            *is_lost = false;
            copy.note(&format!("the stream of {} is back", copy.name()));
        }
        StreamEvent::Lost { why, .. } if is_final(why.status()) => return Err(why.into()),
        StreamEvent::Lost { why, .. } if !*is_lost => {
            *is_lost = true;
            copy.note(&format!(
                "the stream of {} is lost and is reopened: {}",
                copy.name(),
                why.why()
            ));
        }
        StreamEvent::Reset => {
            copy.note(&format!(
                "the stream of {} cannot be resumed: all rows are copied again",
                copy.name()
            ));
            copy.checkpoint.is_whole = false;
            copy.checkpoint.last_event_id = None;
            copy.write_checkpoint()?;
            copy.backfill(Comparison::Rows).await?;
        }
        _ => {}
    }
    Ok(())
}
