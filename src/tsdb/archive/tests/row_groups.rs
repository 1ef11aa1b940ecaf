//! Tests of the cache of row groups.

use model::block::Series;

use super::*;
use crate::archive::ROWS_BYTES_MAX;
use crate::archive::file::FileReader;

#[test]
fn row_group_larger_than_the_cache_is_decoded_once_for_consecutive_pages() {
    let server = TestServer::start();
    let folder = tempdir().unwrap();
    let store = ArchivedStore::new(open_file(folder.path()), server.open(), OPTIONS);
    let id = new_pair(&store);
    let mut block = rows(&hours(0, 744));
    let Series::String(texts) = &mut block.columns[1] else { panic!("not texts") };
    texts.fill(Some("long".repeat(512).into()));
    assert!(block.n_bytes() > ROWS_BYTES_MAX, "in a single row group");
    let now = Timestamp::from_seconds(1);
    let mode = AppendMode::Replace;
    let append = Append { mode, rows: block, now, batches: Vec::new(), beneath: None };
    block_on(store.append(id, append, Arc::new(|_, _| ()))).unwrap();
    store.archive(LATE).unwrap();
    let n_before = server.n_reads();
    for order in [Order::Ascending, Order::Descending] {
        for page_idx in 0..7 {
            let read = read(Span::ALL, order, page_idx * 100, 100);
            assert_eq!(store.page(id, &read).unwrap().rows.len(), 100);
        }
    }
    assert_eq!(server.n_reads() - n_before, 2, "the footer and the row group");
}

#[test]
fn size_of_a_row_group_is_the_memory_that_it_occupies() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 150));
    store.archive(LATE).unwrap();
    let months = store.archive.store.archived(id, Span::ALL).unwrap();
    let reader = FileReader::open(&store.archive.objects, &months[0]).unwrap();
    let block = reader.read_group(0, &rows(&[])).unwrap();
    let [Series::Float(numbers), Series::String(texts)] = &block.columns[..] else { panic!() };
    let capacities = 8 * (block.times.capacity() + block.ids.capacity() + block.created.capacity());
    let of_columns = 16 * (numbers.capacity() + texts.capacity());
    let of_texts: usize = texts.iter().flatten().map(|text| text.len() + 16).sum();
    assert_eq!((block.len(), block.n_bytes()), (150, capacities + of_columns + of_texts));
}
