//! The tables of accounts and of the network in a database, beside those of datasets.

use accounts::Accounts;
use db::postgres::{
    self, DatabaseUrl,
    fault::{Refused, next_step},
    schema::{SchemaSeen, late_sequences},
};
use inference::store::Store;
use task::causes::chain;

use super::Finding;

/// Checks the tables in the database at `url`, each of which another version of the program may have made.
/// A server that cannot be reached is a fault that is found before.
pub(super) async fn check(url: &DatabaseUrl) -> Vec<Finding> {
    let Ok(mut connection) = postgres::connect(url).await else { return Vec::new() };
    let mut findings = Vec::new();
    for schema in [Accounts::copied_tables().database, Store::copied_tables().database] {
        let what = format!("tables of {} at {url}", schema.name);
        findings.extend(match schema.look(&mut connection).await.map_err(Refused::from) {
            Ok(SchemaSeen::Missing { .. }) => None,
            Ok(SchemaSeen::Format(format)) if format == schema.version => {
                Some(Finding::ok(what, format!("of format {format}")))
            }
            Ok(SchemaSeen::Format(format)) => Some(Finding::wrong(
                what,
                format!("of format {format}; this program reads {}", schema.version),
                "use the program that made them; see UPGRADE in `triptych man operate`",
            )),
            Err(error) => {
                let next = next_step(&error).unwrap_or("see the log of the server");
                Some(Finding::wrong(what, format!("cannot {}", chain(&error)), next))
            }
        });
    }
    for schema in ["datasets", "accounts", "inference"] {
        let late = late_sequences(&mut connection, schema).await.unwrap_or_default();
        findings.extend(late.into_iter().map(|table| {
            let next = "set it after the rows: SELECT setval(pg_get_serial_sequence('TABLE', 'id'), max(id)) FROM TABLE";
            Finding::wrong(format!("numbers of {table}"), "the next one is taken", next)
        }));
    }
    findings
}
