use model::timestamp::Timestamp;

use super::*;

fn span(first: i64, last: i64) -> Span {
    Span { first: Timestamp::from_seconds(first), last: Timestamp::from_seconds(last) }
}

fn key(after: i64) -> AnswerKey {
    AnswerKey {
        dataset: DatasetId::new(1).unwrap(),
        columns: Tag::of(0),
        span: span(after, i64::MAX / 2_000_000),
        params: Params(vec![("dataset".to_owned(), "1".to_owned())]),
    }
}

fn answer(n_bytes: usize) -> Answer {
    let body = Bytes::from(vec![b'x'; n_bytes]);
    Answer { body, n_rows: 1, revision: 7, reach: span(5, 9) }
}

#[test]
fn a_page_holds_while_rows_come_elsewhere() {
    let answers = Answers::default();
    let dataset = key(0).dataset;
    answers.put(key(0), answer(3));
    assert_eq!(answers.get(&key(0), 7).unwrap().body, "xxx");
    assert!(answers.get(&key(0), 8).is_none(), "nobody knows what the commit did");
    answers.touched(dataset, 8, span(10, 12));
    assert_eq!(answers.get(&key(0), 8).unwrap().revision, 7);
    answers.touched(dataset, 9, span(0, 5));
    assert!(answers.get(&key(0), 9).is_none(), "one of its rows may be another");
    answers.put(key(0), Answer { revision: 9, ..answer(4) });
    assert_eq!(answers.get(&key(0), 9).unwrap().body, "xxxx");
}

#[test]
fn pages_are_kept_up_to_a_number_of_bytes_and_those_asked_for_stay() {
    let answers = Answers::default();
    let n = i64::try_from(4 * BYTES_MAX / ANSWER_BYTES_MAX).unwrap();
    for after in 0..n {
        // One that comes again takes its place once.
        answers.put(key(after), answer(ANSWER_BYTES_MAX));
        answers.put(key(after), answer(ANSWER_BYTES_MAX));
        assert!(answers.get(&key(0), 7).is_some(), "it is asked for all the time");
        let pages = answers.pages.lock();
        let kept = pages.young.values().chain(pages.old.values());
        assert!(kept.map(|page| page.body.len()).sum::<usize>() <= BYTES_MAX);
    }
    assert!(answers.get(&key(1), 7).is_none());
    assert!(answers.get(&key(n - 1), 7).is_some());
}

#[test]
fn who_comes_by_a_link_is_known_once() {
    let answers = Answers::default();
    assert!(!answers.is_linked(&key(1)), "nobody linked to it");
    answers.link(&key(1));
    assert!(!answers.is_linked(&key(2)));
    assert!(answers.is_linked(&key(1)));
    assert!(!answers.is_linked(&key(1)), "it was followed already");
    for after in 0..i64::try_from(LINKS_MAX).unwrap() * 2 {
        answers.link(&key(after));
        assert!(answers.linked.lock().len() <= LINKS_MAX);
    }
}

#[test]
fn one_very_long_page_is_not_kept() {
    let answers = Answers::default();
    answers.put(key(0), answer(ANSWER_BYTES_MAX + 1));
    assert!(answers.get(&key(0), 7).is_none());
}

#[test]
fn what_a_key_sees_holds_until_the_store_changes() {
    let answers = Answers::default();
    let dataset = DatasetId::new(1).unwrap();
    let who = (KeyId::new(1), DatasetRef::Id(dataset));
    let grant = tsdb::catalog::Grant { dataset, is_owner: true, matching_tags: Vec::new() };
    let sight = Sight { grant, columns: Vec::new(), revision: 3, newest: None };
    answers.saw(4, who.clone(), Arc::new(sight));
    assert_eq!(answers.sight(4, &who).unwrap().revision, 3);
    assert!(answers.sight(5, &who).is_none());
    assert!(answers.sight(4, &(KeyId::new(2), who.1)).is_none());
}
