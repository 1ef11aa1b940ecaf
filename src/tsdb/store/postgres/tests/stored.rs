//! Tests that tables of the first format can be opened.

use std::fs;
use std::path::Path;

use tempfile::tempdir;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_in_an_old_format_are_read_and_written() {
    let stored =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("store/postgres/tests/format_10.sql.zst");
    let folder = tempdir().unwrap();
    let statements = folder.path().join("statements.sql");
    if contract::stored::is_written() {
        let Some(url) = new_database() else { return };
        contract::stored::fill(&PostgresStore::open(&url.parse().unwrap()).unwrap()).await;
        test_postgres::dump(&url, &statements);
        let packed = zstd::encode_all(fs::File::open(&statements).unwrap(), 19).unwrap();
        fs::write(&stored, packed).unwrap();
    }
    fs::write(&statements, zstd::decode_all(fs::File::open(stored).unwrap()).unwrap()).unwrap();
    let Some(url) = test_postgres::stored_database(&statements) else { return };
    let store = PostgresStore::open(&url.parse().unwrap()).unwrap();
    contract::stored::check(&store).await;
}
