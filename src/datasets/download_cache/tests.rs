//! What is kept, and what makes room.

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
fn what_is_kept_comes_back_and_leaves_no_file() {
    let folder = tempdir().unwrap();
    let pieces = DownloadCache::open(&folder.path().join("pieces"), 1000).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(pieces.get(key(1)), None);
    pieces.put(key(1), &piece(1, 200));
    assert_eq!(pieces.get(key(1)), Some(piece(1, 200)));
    assert_eq!(pieces.get(PieceKey { coding: Coding::Zstd, ..key(1) }), None);
    assert_eq!(pieces.get(PieceKey { form: ETag::hash(8), ..key(1) }), None);
}

#[test]
fn the_newest_take_the_place_of_the_oldest() {
    let folder = tempdir().unwrap();
    let pieces = DownloadCache::open(&folder.path().join("pieces"), 1000).unwrap();
    for rows in 0..1000 {
        let length = 1 + usize::try_from(rows * 37 % 240).unwrap();
        pieces.put(key(rows), &piece(rows, length));
        assert_eq!(pieces.get(key(rows)), Some(piece(rows, length)));
        assert_eq!(pieces.get(key(rows - 200)), None);
        let kept = (0..=rows).filter_map(|rows| Some((rows, pieces.get(key(rows))?)));
        let n_bytes: usize = kept
            .map(|(rows, kept)| {
                let is_its_own = kept.bytes.iter().all(|byte| i64::from(*byte) == rows % 256);
                assert!(is_its_own, "{rows}");
                kept.bytes.len()
            })
            .sum();
        assert!(n_bytes <= 1000);
    }
    pieces.put(key(5000), &piece(1, 251));
    assert_eq!(pieces.get(key(5000)), None, "one piece does not drive out all others");
}

#[test]
fn nothing_is_kept_where_nothing_may_be() {
    let folder = tempdir().unwrap();
    let pieces = DownloadCache::open(&folder.path().join("pieces"), 0).unwrap();
    pieces.put(key(1), &piece(1, 1));
    assert_eq!(pieces.get(key(1)), None);
    DownloadCache::open(&folder.path().join("no/such/folder"), 10).unwrap_err();
}
