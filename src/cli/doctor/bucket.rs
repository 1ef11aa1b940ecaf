//! The bucket that old rows are kept in, and which database it is of.

use db::postgres::DatabaseUrl;
use task::causes::chain;
use tsdb::store::{
    objects::{ColdUrl, ObjectError, Objects},
    postgres::cold::owner::{self, ClaimError, Owner},
};

use super::Finding;

/// Checks that objects can be written, read, listed and deleted, and that they are those of the database
/// at `store`.
pub(super) async fn check(url: &ColdUrl, store: Option<&DatabaseUrl>) -> Vec<Finding> {
    let what = format!("bucket {url}");
    let wrong = |error: &ObjectError| {
        Finding::wrong(&what, format!("cannot {}", chain(error)), error.advice())
    };
    let checked = async {
        let objects = Objects::open(url)?;
        objects.check().await?;
        Ok((objects.honors_conditions().await?, objects))
    };
    let (objects, honors_conditions) = match checked.await {
        Ok((honors_conditions, objects)) => (objects, honors_conditions),
        Err(error) => return vec![wrong(&error)],
    };
    let seen = "takes objects, and gives them back";
    let mut findings = vec![if honors_conditions {
        Finding::ok(&what, seen)
    } else {
        Finding::warning(
            &what,
            format!("{seen}, but ignores If-Match and If-None-Match"),
            "keep clones of the database from it: one that starts in the same seconds is noticed late",
        )
    }];
    if let Some(store) = store {
        let what = format!("owner of {url}");
        findings.push(match owner::look(store, &objects).await {
            Ok(Owner::This) => Finding::ok(what, "this database"),
            Ok(Owner::Nobody) => Finding::ok(what, "none: the first service claims it"),
            Ok(Owner::Another) => Finding::wrong(
                what,
                "another database: this one writes and deletes nothing there",
                "use another prefix or none; to take this one over, `triptych datasets stores own`",
            ),
            Err(ClaimError::Objects(error)) => wrong(&error),
            Err(error) => {
                let next = "see what is said of the store";
                Finding::warning(what, format!("cannot {}", chain(&error)), next)
            }
        });
    }
    findings
}
