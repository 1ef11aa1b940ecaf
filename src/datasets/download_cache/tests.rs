//! Tests that pieces are cached and evicted.

use tempfile::tempdir;

use super::*;

fn key(number: i64) -> PieceKey {
    let rows = ChunkId { era: 1, number };
    PieceKey { rows, form: ETag::hash(7), coding: Coding::Gzip }
}

fn piece(rows: i64, length: usize) -> Packed {
    let letter = u8::try_from(rows % 256).unwrap();
    Packed { bytes: vec![letter; length], sum: 1, plain_bytes: 2 }
}

#[test]
fn cached_pieces_are_stored_in_an_unlinked_file_and_returned() {
    let folder = tempdir().unwrap();
    let cache = DownloadCache::open(&folder.path().join("pieces"), 1000).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(cache.get(key(1)), None);
    cache.put(key(1), &piece(1, 200));
    assert_eq!(cache.get(key(1)), Some(piece(1, 200)));
    assert_eq!(cache.get(PieceKey { coding: Coding::Zstd, ..key(1) }), None);
    assert_eq!(cache.get(PieceKey { form: ETag::hash(8), ..key(1) }), None);
}

#[test]
fn new_pieces_of_a_full_cache_overwrite_the_oldest_pieces() {
    let folder = tempdir().unwrap();
    let cache = DownloadCache::open(&folder.path().join("pieces"), 1000).unwrap();
    for rows in 0..1000 {
        let length = 1 + usize::try_from(rows * 37 % 240).unwrap();
        cache.put(key(rows), &piece(rows, length));
        assert_eq!(cache.get(key(rows)), Some(piece(rows, length)));
        assert_eq!(cache.get(key(rows - 200)), None);
        let cached = (0..=rows).filter_map(|rows| Some((rows, cache.get(key(rows))?)));
        let n_bytes: usize = cached
            .map(|(rows, piece)| {
                let is_its_own = piece.bytes.iter().all(|byte| i64::from(*byte) == rows % 256);
                assert!(is_its_own, "{rows}");
                piece.bytes.len()
            })
            .sum();
        assert!(n_bytes <= 1000);
    }
    cache.put(key(5000), &piece(1, 251));
    assert_eq!(cache.get(key(5000)), None, "one piece does not evict all others");
}

#[test]
fn pieces_of_concurrent_writers_are_returned_undamaged() {
    let folder = tempdir().unwrap();
    let cache = DownloadCache::open(&folder.path().join("pieces"), 10_000).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..500 {
                    let number = writer * 1000 + round;
                    let length = 1 + usize::try_from(number * 37 % 2400).unwrap();
                    cache.put(key(number), &piece(number, length));
                    for earlier in (writer * 1000..=number).rev().take(5) {
                        let length = 1 + usize::try_from(earlier * 37 % 2400).unwrap();
                        let found = cache.get(key(earlier));
                        assert!(found.is_none_or(|found| found == piece(earlier, length)));
                    }
                }
            });
        }
    });
}

#[test]
fn disabled_cache_stores_nothing() {
    let folder = tempdir().unwrap();
    let cache = DownloadCache::open(&folder.path().join("pieces"), 0).unwrap();
    cache.put(key(1), &piece(1, 1));
    assert_eq!(cache.get(key(1)), None);
    DownloadCache::open(&folder.path().join("no/such/folder"), 10).unwrap_err();
}
