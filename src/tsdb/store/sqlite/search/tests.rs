//! Tests of the indexes of letters, and of searches with indexes compared with plain searches.

use std::collections::BTreeMap;

use model::timestamp::Timestamp;

use super::*;
use crate::catalog::NewDataset;
use crate::store::datasets;
use crate::store::session::ready;
use crate::store::sqlite::catalog::grams;
use crate::store::sqlite::tables;

/// Creates a store in memory with datasets of these names and descriptions, which key 1 owns.
fn store(texts: &[(String, String)]) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    tables::SCHEMA.create_tables(&mut connection).unwrap();
    let new = |(name, description): &(String, String)| NewDataset {
        name: name.clone(),
        description: description.clone(),
        metadata: BTreeMap::new(),
        columns: Vec::new(),
        tags: Vec::new(),
        owner: Some(KeyId::new(1)),
    };
    let all: Vec<_> = texts.iter().map(new).collect();
    let now = Timestamp::from_seconds(1);
    ready(datasets::create(&mut &connection, &all, None, now)).unwrap();
    connection
}

#[test]
fn search_index_contains_the_letters_and_pairs_of_a_text() {
    assert_eq!(grams(""), "");
    assert_eq!(grams("aba"), "61 6162 62 6261 ");
    assert_eq!(grams("é_"), "5f c3a9 c3a95f ");
}

#[test]
fn index_lookup_finds_the_same_datasets_as_a_plain_search() {
    let words = ["Tiingo", "btc%usd", "1min", "ÉTÉ", "a\"b", "x_y", "zz", "Köln"];
    let texts: Vec<(String, String)> = (0..64_usize)
        .map(|n| {
            let word = |idx: usize| words[idx % words.len()];
            (format!("{}_{}{n}", word(n), word(n / 8)), format!("About {} {n}\n", word(n / 3)))
        })
        .collect();
    let connection = store(&texts);
    let seen = visible(&connection, KeyId::new(1)).unwrap();
    assert_eq!(seen.len(), 64);
    for text in [
        "tiingo",
        "TIINGO",
        "t",
        "ti",
        "zz",
        "z_",
        "%",
        "_",
        "x_y",
        "été",
        "é",
        "\"",
        "a\"b",
        "öln",
        "about",
        "out été",
        "1min6",
        "nothing",
        "qq",
        "zzz",
        " ",
        "\n",
        "5",
        "42",
        "\0",
        "*",
        "tiingo about",
        "zz 42",
        "tiingo été",
        "t é 5",
        "köln 1min",
        "1min nothing",
        "_ \"",
    ] {
        let text = text.to_lowercase();
        let text = text.trim();
        for (skip, limit) in [(0, 100), (0, 5), (3, 4), (60, 10)] {
            let found = look_up(&connection, &seen, text, skip, limit).unwrap();
            let plain = search_all(&connection, &seen, text, skip, limit).unwrap();
            assert_eq!(
                (found.count, found.is_last, found.page),
                (plain.count, plain.is_last, plain.page),
                "{text:?} {skip} {limit}"
            );
        }
    }
}

#[test]
fn results_of_a_huge_search_are_paged_but_not_counted() {
    let n = COUNTED_MAX + 300;
    let texts: Vec<_> = (0..n).map(|n| (format!("common_{n:05}"), String::new())).collect();
    let connection = store(&texts);
    let page = |skip| {
        let filter = Filter::Text("common".to_owned());
        let listed = list(&connection, KeyId::new(1), &filter, skip, 100).unwrap();
        let first = listed.datasets.first().map(|dataset| dataset.name.clone());
        (listed.count, listed.is_last, first)
    };
    assert_eq!(page(0), (None, false, Some("common_00000".to_owned())));
    // Near the end, few enough matches follow the page to count them.
    let n = u64::try_from(n).unwrap();
    assert_eq!(page(n - 200), (Some(n), false, Some(format!("common_{:05}", n - 200))));
    assert_eq!(page(n - 100), (Some(n), true, Some(format!("common_{:05}", n - 100))));
    assert_eq!(page(n + 5), (Some(n), true, None));
}
