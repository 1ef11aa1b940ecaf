//! Tests of the events that readers of a hub receive.

use std::collections::VecDeque;

use futures::FutureExt as _;
use proptest::prelude::*;

use super::frame::{CommitRows, frames_of};
use super::*;

impl Hub {
    fn n_readers(&self, dataset: DatasetId) -> usize {
        let readers = self.readers.lock();
        readers.datasets.get(&dataset).map_or(0, |followed| followed.readers.len())
    }
}

impl Subscription {
    /// Returns the next frame if it has already arrived.
    fn try_next(&mut self) -> Result<Option<Frame>, CutOff> {
        match self.next().now_or_never().unwrap_or(Ok(None))? {
            Some(HubEvent::Frame(frame)) => Ok(Some(frame)),
            Some(HubEvent::Access) => panic!("nothing became hidden"),
            Some(HubEvent::Removal) => self.try_next(),
            Some(HubEvent::Lost) => panic!("nothing was lost"),
            None => Ok(None),
        }
    }

    fn is_hidden(&mut self) -> bool {
        matches!(self.next().now_or_never(), Some(Ok(Some(HubEvent::Access))))
    }
}

const KEY: KeyId = KeyId::new(7);

fn dataset() -> DatasetId {
    DatasetId::new(1).unwrap()
}

/// Returns frames with the given commits, each of which has one row with its revision as text.
fn frames(revisions: &[u64]) -> Vec<Frame> {
    let commit = |(row_idx, revision): (usize, &u64)| CommitRows {
        revision: *revision,
        rows: row_idx..row_idx + 1,
    };
    let commits: Vec<CommitRows> = revisions.iter().enumerate().map(commit).collect();
    frames_of(&commits, |to, row_idx| to.extend(format!("{} ", revisions[row_idx]).bytes()))
}

fn frame(revision: u64) -> Vec<Frame> {
    frames(&[revision])
}

#[test]
fn readers_get_each_frame_once_and_share_its_bytes() {
    let hub = Hub::new(3, Writers::One);
    let mut readers: Vec<_> = (0..3).map(|_| hub.subscribe(dataset(), KEY).unwrap()).collect();
    hub.publish(dataset(), 7, || frame(7));
    hub.publish(DatasetId::new(2).unwrap(), 7, || panic!("nobody follows it"));
    let got: Vec<Frame> =
        readers.iter_mut().map(|reader| reader.try_next().unwrap().unwrap()).collect();
    assert!(got.iter().all(|frame| frame.revision == 7));
    assert!(got.windows(2).all(|pair| pair[0].events.as_ptr() == pair[1].events.as_ptr()));
    assert!(readers[0].try_next().unwrap().is_none());
}

#[test]
fn lagging_reader_is_disconnected_without_affecting_a_reader_that_keeps_up() {
    let hub = Hub::new(3, Writers::One);
    let (mut slow, mut quick) =
        (hub.subscribe(dataset(), KEY).unwrap(), hub.subscribe(dataset(), KEY).unwrap());
    for revision in 0..=LAG_FRAMES as u64 {
        hub.publish(dataset(), revision, || frame(revision));
        assert_eq!(quick.try_next().unwrap().unwrap().revision, revision);
    }
    assert_eq!(slow.try_next().unwrap_err(), CutOff { lag_frames: 1 });
}

#[test]
fn dataset_without_readers_uses_no_memory() {
    let hub = Hub::new(3, Writers::One);
    let (one, two) =
        (hub.subscribe(dataset(), KEY).unwrap(), hub.subscribe(dataset(), KEY).unwrap());
    assert_eq!(hub.n_readers(dataset()), 2);
    drop(one);
    assert_eq!(hub.n_readers(dataset()), 1);
    drop(two);
    assert!(hub.readers.lock().datasets.is_empty());
    hub.publish(dataset(), 8, || panic!("nobody follows it"));
}

#[test]
fn readers_check_their_access_again_after_their_key_or_dataset_changes() {
    let hub = Hub::new(3, Writers::One);
    let other = DatasetId::new(2).unwrap();
    let mut mine = hub.subscribe(dataset(), KEY).unwrap();
    let mut elsewhere = hub.subscribe(other, KEY).unwrap();
    let mut foreign = hub.subscribe(dataset(), KeyId::new(8)).unwrap();
    hub.recheck_access_of(KEY);
    assert!(mine.is_hidden() && elsewhere.is_hidden() && !foreign.is_hidden());
    hub.recheck_access(dataset());
    assert!(mine.is_hidden() && !elsewhere.is_hidden() && foreign.is_hidden());
}

#[test]
fn readers_beyond_the_maximum_number_are_rejected() {
    let hub = Hub::new(3, Writers::One);
    let readers: Vec<_> = (0..3).map(|_| hub.subscribe(dataset(), KEY).unwrap()).collect();
    assert!(hub.subscribe(dataset(), KEY).is_none());
    drop(readers);
    hub.subscribe(dataset(), KEY).unwrap();
}

/// A step of a simulated service with a shared store. The test takes random steps in any order.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Another service adds a commit to the store. The hub is not notified.
    CommitElsewhere,
    /// This service makes a commit, of which its hub is notified in a later step.
    CommitHere,
    /// The hub is notified of the oldest commit of this service that it does not know yet.
    Publish,
    /// A poll begins, or the poll in progress completes.
    Poll,
    /// A read of the marked dataset begins, or its rows are published.
    Read,
    /// A reader subscribes. In the next such step, it reads the revision of the dataset, then the rows.
    Subscribe,
    /// The reader that subscribed first leaves.
    Leave,
}

/// A dataset with readers at this service, to which several services write.
struct Replica {
    hub: Hub,
    head: u64,
    /// Commits of this service of which its hub was not notified yet.
    unpublished: VecDeque<u64>,
    /// Datasets and revision that a poll in progress has read.
    poll: Option<(Vec<Followed>, u64)>,
    /// Revisions of a read in progress: it has the commits after the first revision up to the second.
    read: Option<(u64, u64)>,
    subscribing: Option<Subscription>,
    /// Readers, each with the revision of the rows that it read first, and the revisions of the commits
    /// that it received afterwards.
    readers: VecDeque<(Subscription, u64, Vec<u64>)>,
}

impl Replica {
    fn new() -> Self {
        Self {
            hub: Hub::new(9, Writers::Several),
            head: 3,
            unpublished: VecDeque::new(),
            poll: None,
            read: None,
            subscribing: None,
            readers: VecDeque::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::CommitElsewhere => self.head += 1,
            Step::CommitHere => {
                self.head += 1;
                self.unpublished.push_back(self.head);
            }
            Step::Publish => {
                if let Some(revision) = self.unpublished.pop_front() {
                    self.hub.publish(dataset(), revision, || frame(revision));
                }
            }
            Step::Poll => match self.poll.take() {
                None => self.poll = Some((self.hub.followed(), self.head)),
                Some((followed, head)) => {
                    for before in followed {
                        self.hub.note_head(before, Some(head));
                    }
                }
            },
            Step::Read => match self.read.take() {
                None => {
                    let behind = self.hub.take_behind().pop();
                    self.read = behind.map(|(_, after)| (after, self.head));
                }
                Some((after, through)) => {
                    let revisions: Vec<u64> = (after + 1..=through).collect();
                    self.hub.publish_read(dataset(), after, through, frames(&revisions));
                }
            },
            Step::Subscribe => match self.subscribing.take() {
                None => self.subscribing = self.hub.subscribe(dataset(), KEY),
                Some(reader) => {
                    self.hub.begin(dataset(), self.head);
                    self.readers.push_back((reader, self.head, Vec::new()));
                }
            },
            Step::Leave => drop(self.readers.pop_front()),
        }
        self.receive();
    }

    /// Passes published commits on to the readers.
    fn receive(&mut self) {
        for (reader, from, got) in &mut self.readers {
            while let Some(frame) = reader.try_next().unwrap() {
                let events = frame.after(*from).unwrap_or_default();
                let text = String::from_utf8(events.to_vec()).unwrap();
                got.extend(text.split_whitespace().map(|number| number.parse::<u64>().unwrap()));
            }
        }
    }

    /// Completes all steps in progress, then polls and reads once more.
    fn finish(&mut self) {
        while !self.unpublished.is_empty() {
            self.step(Step::Publish);
        }
        for step in [Step::Poll, Step::Read] {
            let is_under_way = match step {
                Step::Poll => self.poll.is_some(),
                _ => self.read.is_some(),
            };
            (0..3 - usize::from(!is_under_way)).for_each(|_| self.step(step));
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    use Step::{CommitElsewhere, CommitHere, Leave, Poll, Publish, Read, Subscribe};
    prop_oneof![
        Just(CommitElsewhere),
        Just(CommitHere),
        Just(CommitHere),
        Just(Publish),
        Just(Publish),
        Just(Poll),
        Just(Read),
        Just(Read),
        Just(Subscribe),
        Just(Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn readers_get_the_commits_of_all_services_once_and_in_order(
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut replica = Replica::new();
        for step in steps {
            replica.step(step);
        }
        replica.finish();
        for (_, from, got) in &replica.readers {
            let want: Vec<u64> = (from + 1..=replica.head).collect();
            prop_assert_eq!(got, &want, "from {}", from);
        }
    }
}

#[test]
fn restored_store_with_older_commits_closes_the_streams() {
    let hub = Hub::new(3, Writers::Several);
    let mut reader = hub.subscribe(dataset(), KEY).unwrap();
    hub.begin(dataset(), 7);
    let before = hub.followed()[0];
    hub.note_head(before, Some(7));
    assert!(reader.try_next().unwrap().is_none());
    hub.note_head(before, Some(6));
    assert!(matches!(reader.next().now_or_never(), Some(Ok(Some(HubEvent::Lost)))));
}
