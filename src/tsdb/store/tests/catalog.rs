//! Tests of the catalog: changes are made completely, and each key finds exactly the datasets that are
//! visible to it.

use std::collections::BTreeSet;
use std::time::Duration;

use model::dataset::PUBLIC_TAG;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::catalog::{Change, ColumnChange, MetadataChange};

pub(super) async fn changing(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("changing")).await;
    let other = create(&*store, new_dataset("changing_other")).await;
    let named = |name: &str| Change { name: Some(name.to_owned()), ..Change::default() };
    let describe = |id, change, at| store.change(id, DatasetChange::Description(change), at);
    let taken = describe(id, named("changing_other"), now()).await;
    check_refused(&taken, &Refusal::NameTaken { name: "changing_other".to_owned() });
    let later = Timestamp::from_seconds(1_900_000_000);
    let changed = describe(id, named("changed"), later).await.unwrap();
    assert_eq!((changed.dataset.name.as_str(), changed.dataset.updated_at), ("changed", later));
    assert_eq!(read_sight(&*store, id), Some(Sight { is_owner: false, ..changed }));
    let find = |key, name: &str| {
        let seen = store.sight(key, &DatasetRef::Name(name.to_owned())).unwrap();
        seen.map(|seen| seen.dataset.id)
    };
    assert_eq!(find(Some(key(1)), "changed"), Some(id));
    assert_eq!(find(Some(key(1)), "changing"), None);
    assert_eq!(find(Some(key(2)), "changed"), None);
    assert_eq!(find(None, "changed"), Some(id), "the service sees all");

    let change = |change| store.change(other, DatasetChange::Column(change), now());
    let add = |name: &str, dtype| change(ColumnChange::Add(name.to_owned(), dtype));
    let columns = add("note", Dtype::String).await.unwrap().columns;
    assert_eq!(columns.last().map(|column| column.name.as_str()), Some("note"));
    check_refused(&add("note", Dtype::Float).await, &Refusal::ColumnTaken);
    append(&*store, other, block([(1, 1.0)])).await;
    for name in ["open", "high", "low"] {
        add(name, Dtype::Float).await.unwrap();
    }
    check_refused(&add("close", Dtype::Float).await, &Refusal::Refolds);
    let add_all = |names: Vec<String>| {
        let new = names.into_iter().map(|name| (name, Dtype::Float)).collect();
        store.change(other, DatasetChange::NewColumns(new), now())
    };
    check_refused(&add_all(vec!["close".to_owned()]).await, &Refusal::Refolds);
    let many = (0..1_020).map(|n| format!("column_{n}")).collect();
    check_refused(&add_all(many).await, &Refusal::ColumnsFull);
    let columns = read_sight(&*store, other).unwrap().columns;
    assert_eq!(columns.len(), 5, "what is refused leaves nothing");
    let rename = |name: &str, new_name: &str| {
        change(ColumnChange::Rename { name: name.to_owned(), new_name: new_name.to_owned() })
    };
    check_refused(&rename("none", "some").await, &Refusal::ColumnUnknown);
    check_refused(&rename("note", "open").await, &Refusal::ColumnTaken);
    check_refused(&change(ColumnChange::Delete("none".to_owned())).await, &Refusal::ColumnUnknown);
    let metadata = BTreeMap::from([("value_column".to_owned(), "open".to_owned())]);
    let change = Change { metadata: MetadataChange::Replace(metadata), ..Change::default() };
    check_refused(&describe(other, change.clone(), now()).await, &Refusal::Refolds);
    let gone = DatasetId::new(999_999).unwrap();
    let refused = describe(gone, change, now()).await;
    assert!(matches!(refused, Err(StoreError::NoDataset { .. })), "{refused:?}");

    let twice = vec![new_dataset("twice"), new_dataset("once"), new_dataset("twice")];
    let refused = store.create(twice, now()).await;
    check_refused(&refused, &Refusal::NameTaken { name: "twice".to_owned() });
    assert_eq!(find(Some(key(1)), "once"), None, "all or none");
}

/// Returns a dataset of the key `owner`.
pub(crate) fn dataset_of(owner: i64, name: &str, tags: &[&str]) -> NewDataset {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    NewDataset { owner: Some(key(owner)), tags, ..new_dataset(name) }
}

pub(super) async fn naming_public_datasets(open: Open<'_>) {
    let store = open();
    create(&*store, dataset_of(1, "quotes", &[PUBLIC_TAG])).await;
    let want = Refusal::PublicNameTaken { name: "quotes".to_owned() };
    let created = store.create(vec![dataset_of(2, "quotes", &[PUBLIC_TAG])], now()).await;
    check_refused(&created, &want);
    let private = create(&*store, dataset_of(2, "quotes", &["desk"])).await;
    let attach = TagChange::Attach(private, PUBLIC_TAG.to_owned());
    check_refused(&store.change_tag(attach).await, &want);
    let other = create(&*store, dataset_of(3, "other_quotes", &[PUBLIC_TAG])).await;
    let change = Change { name: Some("quotes".to_owned()), ..Change::default() };
    let renamed = store.change(other, DatasetChange::Description(change), now()).await;
    check_refused(&renamed, &want);
}

/// Checks that a change was rejected with the error `want`.
#[track_caller]
pub(super) fn check_refused<T: fmt::Debug>(changed: &Result<T, StoreError>, want: &Refusal) {
    assert!(
        matches!(&changed, Err(StoreError::Refused(refusal)) if refusal == want),
        "{changed:?}"
    );
}

/// Random change that affects visibility. There are few keys, tags and datasets, so that several changes
/// often affect the same dataset.
#[derive(Debug, Clone)]
enum Step {
    Create { owner: i64, tags: Vec<usize> },
    Rename { nth: usize },
    Tag { nth: usize, tag: usize },
    Untag { nth: usize, tag: usize },
    Give { owner: i64, key: i64, tag: usize },
    Take { owner: i64, key: i64, tag: usize },
    Delete { nth: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (keys, tags, nth) = (100..104_i64, 0..3_usize, 0..12_usize);
    prop_oneof![
        4 => (keys.clone(), prop::collection::vec(tags.clone(), 0..3))
            .prop_map(|(owner, tags)| Step::Create { owner, tags }),
        2 => nth.clone().prop_map(|nth| Step::Rename { nth }),
        2 => (nth.clone(), tags.clone()).prop_map(|(nth, tag)| Step::Tag { nth, tag }),
        1 => (nth.clone(), tags.clone()).prop_map(|(nth, tag)| Step::Untag { nth, tag }),
        3 => (keys.clone(), keys.clone(), tags.clone())
            .prop_map(|(owner, key, tag)| Step::Give { owner, key, tag }),
        1 => (keys.clone(), keys, tags)
            .prop_map(|(owner, key, tag)| Step::Take { owner, key, tag }),
        1 => nth.prop_map(|nth| Step::Delete { nth }),
    ]
}

/// A dataset of the [`Model`].
#[derive(Debug, Clone)]
struct Plain {
    id: DatasetId,
    owner: i64,
    name: String,
    tags: BTreeSet<usize>,
}

/// Plain lists with the expected content of the catalog.
#[derive(Debug, Default)]
struct Model {
    /// Number of this run, which is part of the names of its datasets and tags, so that runs in the same
    /// store are independent.
    run: usize,
    datasets: Vec<Plain>,
    /// Existing tags, as pairs of the owner and a number.
    tags: BTreeSet<(i64, usize)>,
    /// Keys with the tags that they hold: key, owner and number of the tag.
    held: BTreeSet<(i64, i64, usize)>,
    n_named: usize,
}

impl Model {
    fn tag(&self, tag: usize) -> String {
        format!("tag_{}_{tag}", self.run)
    }

    fn next_name(&mut self) -> String {
        self.n_named += 1;
        format!("Run{}_{}", self.run, self.n_named)
    }

    fn sees(&self, key: i64, dataset: &Plain) -> bool {
        let owner = dataset.owner;
        owner == key || dataset.tags.iter().any(|tag| self.held.contains(&(key, owner, *tag)))
    }

    async fn take(&mut self, store: &dyn Store, step: Step) {
        match step {
            Step::Create { owner, tags } => self.create(store, owner, tags).await,
            Step::Rename { nth } => {
                let name = self.next_name();
                let Some(dataset) = self.datasets.get_mut(nth) else { return };
                let change = Change { name: Some(name.clone()), ..Change::default() };
                let change = DatasetChange::Description(change);
                store.change(dataset.id, change, now()).await.unwrap();
                dataset.name = name;
            }
            Step::Tag { nth, tag } => {
                let Some(dataset) = self.datasets.get(nth) else { return };
                self.tags.insert((dataset.owner, tag));
                let is_new =
                    store.change_tag(TagChange::Attach(dataset.id, self.tag(tag))).await.unwrap();
                assert_eq!(self.datasets[nth].tags.insert(tag), is_new);
            }
            Step::Untag { nth, tag } => {
                let name = self.tag(tag);
                let Some(dataset) = self.datasets.get_mut(nth) else { return };
                let had_it = store.change_tag(TagChange::Detach(dataset.id, name)).await.unwrap();
                assert_eq!(had_it, dataset.tags.remove(&tag));
            }
            Step::Give { owner, key: number, tag } => {
                let name = self.tag(tag);
                let is_there = self.tags.contains(&(owner, tag));
                let known = store.tags(TagFilter::KnownTo(key(owner))).unwrap();
                let is_own = |tag: &Tag| tag.owner == Some(key(owner)) && tag.name == name;
                assert_eq!(known.iter().any(is_own), is_there);
                let give = TagChange::Give { owner: Some(key(owner)), tag: name, key: key(number) };
                let is_new = store.change_tag(give).await.unwrap();
                assert_eq!(is_new, is_there && self.held.insert((number, owner, tag)));
            }
            Step::Take { owner, key: number, tag } => {
                let name = self.tag(tag);
                let take = TagChange::Take { owner: Some(key(owner)), tag: name, key: key(number) };
                let held_it = store.change_tag(take).await.unwrap();
                assert_eq!(held_it, self.held.remove(&(number, owner, tag)));
            }
            Step::Delete { nth } if nth < self.datasets.len() => {
                assert!(store.delete(self.datasets.remove(nth).id).await.unwrap());
            }
            Step::Delete { .. } => {}
        }
    }

    async fn create(&mut self, store: &dyn Store, owner: i64, tags: Vec<usize>) {
        let (name, tags) = (self.next_name(), BTreeSet::from_iter(tags));
        let new = NewDataset {
            owner: Some(key(owner)),
            tags: tags.iter().map(|tag| self.tag(*tag)).collect(),
            ..new_dataset(&name)
        };
        let made = store.create(vec![new], now()).await.unwrap();
        self.tags.extend(tags.iter().map(|tag| (owner, *tag)));
        self.datasets.push(Plain { id: made[0].id, owner, name, tags });
    }

    /// Checks which datasets each key finds, in every way to find them.
    fn check(&self, store: &dyn Store) {
        for number in 100..104 {
            let of_run = |dataset: &&Plain| self.sees(number, dataset);
            let seen: BTreeSet<DatasetId> =
                self.datasets.iter().filter(of_run).map(|dataset| dataset.id).collect();
            let text = format!("run{}_", self.run);
            let list = |filter: Filter| {
                let listed = store.list(key(number), &filter, 0, 99_999).unwrap();
                let ids: Vec<_> = listed.datasets.iter().map(|dataset| dataset.id).collect();
                assert_eq!(listed.count, u64::try_from(ids.len()).ok());
                assert!(listed.is_last);
                ids
            };
            let by_text = BTreeSet::from_iter(list(Filter::Text(text)));
            assert_eq!(by_text, seen, "key {number}");
            let all = BTreeSet::from_iter(list(Filter::All));
            assert!(seen.is_subset(&all));
            for dataset in &self.datasets {
                let is_seen = seen.contains(&dataset.id);
                assert_eq!(all.contains(&dataset.id), is_seen);
                let which = DatasetRef::Id(dataset.id);
                assert_eq!(store.sight(Some(key(number)), &which).unwrap().is_some(), is_seen);
                let by_name = DatasetRef::Name(dataset.name.clone());
                let seen = store.sight(Some(key(number)), &by_name).unwrap();
                assert_eq!(seen.map(|seen| seen.dataset.id), is_seen.then_some(dataset.id));
                let found = list(Filter::Text(dataset.name.to_uppercase()));
                assert_eq!(found.first() == Some(&dataset.id), is_seen);
            }
        }
    }
}

/// Makes random changes to a store and compares it with the [`Model`].
pub(crate) fn check_random_sharing(open: Open<'_>, n_cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = Config::with_cases(n_cases);
    let store = open();
    let n_runs = std::cell::Cell::new(0);
    let check = |steps: Vec<Step>| {
        n_runs.set(n_runs.get() + 1);
        let mut model = Model { run: n_runs.get(), ..Model::default() };
        runtime.block_on(async {
            for step in steps {
                model.take(&*store, step).await;
            }
        });
        model.check(&*store);
        Ok(())
    };
    TestRunner::new(config).run(&prop::collection::vec(step(), 1..60), check).unwrap();
}

/// Appends rows that were parsed before a column was added.
pub(crate) async fn appending_fewer_columns(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("widened")).await;
    let more = vec![("more".to_owned(), Dtype::Float)];
    store.change(id, DatasetChange::NewColumns(more), now()).await.unwrap();
    let mut wide = block((0..1500).map(|n| (n * 60, 1.0)));
    wide.columns.push(wide.columns[0].clone());
    append(&*store, id, wide.clone()).await;
    wide.times.iter_mut().for_each(|time| *time = *time + Duration::from_secs(200_000));
    append(&*store, id, wide.part(0..300)).await;
    let merge = |rows| Append { mode: AppendMode::Merge, ..replace(rows) };
    let few = merge(block([(0, 2.0), (200_000, 2.0)]));
    store.append(id, few, Arc::new(|_, _| ())).await.unwrap();
    let many = merge(block((0..3000).map(|n| (n * 60 + 60, 3.0))));
    store.append(id, many, Arc::new(|_, _| ())).await.unwrap();
    append(&*store, id, block((0..1200).map(|n| (300_000 + n, 4.0)))).await;
    store.settle().await.unwrap();
    let (rows, _) = newest(&*store, id, 9_999);
    let n_wide = (0..rows.len()).filter(|idx| rows.columns[1].number(*idx).is_some()).count();
    assert_eq!(n_wide, 1800, "no value of the new column is lost");
}
