//! The bucket that old rows are kept in.

use task::causes::chain;
use tsdb::store::objects::{ColdUrl, Objects};

use super::Finding;

/// Checks that objects can be written, read, listed and deleted.
pub(super) async fn check(url: &ColdUrl) -> Finding {
    let what = format!("bucket {url}");
    let checked = async { Objects::open(url)?.check().await };
    match checked.await {
        Ok(()) => Finding::ok(what, "takes objects, and gives them back"),
        Err(error) => Finding::wrong(what, format!("cannot {}", chain(&error)), error.advice()),
    }
}
