//! Checks of the database with datasets, accounts and networks, and of the archive of old rows.

use accounts::Accounts;
use db::postgres::fault::{PostgresError, diagnose};
use db::postgres::schema::{SchemaSeen, late_sequences};
use db::postgres::{self, DatabaseUrl};
use inference::store::Store;
use model::count::counted;
use tokio::task::spawn_blocking;
use tsdb::archive::objects::{ArchiveUrl, Objects};
use tsdb::store::StoreError;
use tsdb::store::postgres::CONNECTIONS_MAX;
use tsdb::store::postgres::look::{ServerSeen, look};

use super::Finding;

/// Encoding that can represent all text.
const ENCODING: &str = "UTF8";

/// Number of dataset services for which a server should have enough connections: two, so that one can
/// fail, plus a replacement that is starting.
const SERVICES_MIN: u64 = 3;

/// Maximum number of connections of a dataset service.
const PER_SERVICE: u64 = (CONNECTIONS_MAX + accounts::CONNECTIONS_MAX) as u64;

/// Advice if the tables have a format that this program does not read.
const OTHER_FORMAT: &str = "use the program that made them; see UPGRADE in `triptych man operate`";

/// Advice if the user lacks a privilege on tables.
const GRANT: &str = "let the owner of the tables GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN \
    SCHEMA datasets, accounts, inference TO user; a service with --read-only needs only SELECT";

/// Checks the database at `url`.
pub(super) async fn check(url: &DatabaseUrl) -> Finding {
    let what = format!("store at {url}");
    match look(url).await {
        Ok(seen) => evaluate(&what, seen),
        Err(error) => report_failure(what, &error),
    }
}

/// Checks the archive at `url`.
pub(super) async fn check_archive(url: ArchiveUrl) -> Finding {
    let what = format!("archive at {url}");
    let checked = spawn_blocking(move || Objects::open(&url)?.check()).await;
    match checked {
        Ok(Ok(())) => Finding::ok(what, "is reachable"),
        Ok(Err(error)) => Finding::failed(what, &error, error.advice()),
        Err(error) => Finding::failed(what, &error, "try again"),
    }
}

fn evaluate(what: &str, seen: ServerSeen) -> Finding {
    let ServerSeen { version, is_too_old, is_standby, tables, n_connections, encoding, .. } = seen;
    let version = format!("PostgreSQL {version}");
    let wrong = |seen: &str, next: &str| Finding::wrong(what, format!("{version}, {seen}"), next);
    if is_too_old {
        return wrong("which is too old", "upgrade it to PostgreSQL 15 or later");
    }
    if encoding != ENCODING {
        return wrong(
            &format!("encoding {encoding}, which cannot represent all text"),
            "create another database: createdb --encoding UTF8 --template template0 NAME",
        );
    }
    let tables = match tables {
        None => {
            return wrong(
                "no permission to use schema datasets",
                "let its owner GRANT USAGE ON SCHEMA datasets, accounts, inference TO user, and access to their tables",
            );
        }
        Some(SchemaSeen::Format(ServerSeen::FORMAT)) => {
            format!("tables of format {}", ServerSeen::FORMAT)
        }
        Some(SchemaSeen::Format(format)) => {
            return wrong(
                &format!("tables of format {format}; this program reads {}", ServerSeen::FORMAT),
                OTHER_FORMAT,
            );
        }
        Some(SchemaSeen::Missing { can_create: false }) => {
            return wrong(
                "no tables, and no permission to create them",
                "let its owner GRANT CREATE ON DATABASE name TO user",
            );
        }
        Some(SchemaSeen::Missing { can_create: true }) => {
            "no tables: the first service makes them".to_owned()
        }
    };
    if is_standby {
        return Finding::warning(
            what,
            format!("{version}, a standby, which accepts no writes, {tables}"),
            "name the primary server, or start the service with --read-only",
        );
    }
    if seen.is_read_only {
        return Finding::warning(
            what,
            format!("{version}, accepts no writes, since transaction_read_only is on, {tables}"),
            "turn off default_transaction_read_only, or start the service with --read-only",
        );
    }
    if let Some(lacking) = seen.lacking {
        let seen = format!("{version}, user lacks privileges: {lacking}");
        return Finding::warning(what, seen, GRANT);
    }
    let (room, next) = count_services(n_connections);
    let seen = format!("{version}, {tables}; {room}");
    next.map_or_else(|| Finding::ok(what, &seen), |next| Finding::warning(what, &seen, next))
}

/// Reports that the server of the database could not be examined, with advice by the type of `error`.
fn report_failure(what: String, error: &StoreError) -> Finding {
    if let Some(fault) = diagnose(error) {
        return Finding::wrong(what, fault.text, fault.next);
    }
    Finding::failed(
        what,
        error,
        "check that it runs, its host and port, and PGPASSWORD or ~/.pgpass",
    )
}

/// Describes the number of dataset services for which `n_connections` are enough. Also returns advice
/// if that is less than [`SERVICES_MIN`].
fn count_services(n_connections: u64) -> (String, Option<String>) {
    let n_services = n_connections / PER_SERVICE;
    let services = counted(n_services, "dataset service");
    let room = format!("{n_connections} connections, enough for {services} of {PER_SERVICE} each");
    let n_wanted = SERVICES_MIN * PER_SERVICE;
    let next = format!(
        "for {SERVICES_MIN} services, raise max_connections by {}, which requires a restart of the server, or \
         raise the CONNECTION LIMIT of the role or the database to {n_wanted}",
        n_wanted.saturating_sub(n_connections)
    );
    (room, (n_services < SERVICES_MIN).then_some(next))
}

/// Checks the format of the tables of accounts and networks in the database at `url`, since another
/// version of the program can have made them. Also checks the sequences of all tables. Returns nothing
/// if the server cannot be reached, since [`check`] reports that.
pub(super) async fn check_other_tables(url: &DatabaseUrl) -> Vec<Finding> {
    let mut findings = Vec::new();
    for schema in [Accounts::copied_tables().database, Store::copied_tables().database] {
        let what = format!("tables of {} at {url}", schema.name);
        let Ok(mut connection) = postgres::connect(url).await else { return findings };
        findings.extend(match schema.look(&mut connection).await.map_err(PostgresError::from) {
            Ok(SchemaSeen::Missing { .. }) => None,
            Ok(SchemaSeen::Format(format)) if format == schema.version => {
                Some(match schema.check_privileges(&mut connection).await {
                    Ok(()) => Finding::ok(what, format!("of format {format}")),
                    Err(error) => {
                        Finding::warning(what, PostgresError::from(error).to_string(), GRANT)
                    }
                })
            }
            Ok(SchemaSeen::Format(format)) => {
                let seen = format!("of format {format}; this program reads {}", schema.version);
                Some(Finding::wrong(what, seen, OTHER_FORMAT))
            }
            Err(error) => Some(match diagnose(&error) {
                Some(fault) => Finding::wrong(what, fault.text, fault.next),
                None => Finding::failed(what, &error, OTHER_FORMAT),
            }),
        });
    }
    for schema in ["datasets", "accounts", "inference"] {
        let Ok(mut connection) = postgres::connect(url).await else { return findings };
        let late = late_sequences(&mut connection, schema).await.unwrap_or_default();
        findings.extend(late.into_iter().map(|table| {
            let next = "set it after the rows: SELECT setval(pg_get_serial_sequence('TABLE', 'id'), max(id)) FROM TABLE";
            Finding::wrong(format!("numbers of {table}"), "the next number is in use", next)
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n_connections: u64, want: &[&str]) {
        let seen = ServerSeen {
            version: "17.2".to_owned(),
            is_too_old: false,
            is_standby: false,
            is_read_only: false,
            tables: Some(SchemaSeen::Format(ServerSeen::FORMAT)),
            lacking: None,
            n_connections,
            encoding: ENCODING.to_owned(),
        };
        let finding = evaluate("store at postgres://db/rows", seen);
        let line = crate::cli::doctor::text(&[finding]);
        assert!(want.iter().all(|part| line.contains(part)), "{line}");
    }

    #[test]
    fn doctor_warns_of_a_connection_limit_too_low_for_three_services() {
        check(97, &["ok  ", "97 connections", "3 dataset services of 32 each"]);
        check(95, &["warning  ", "2 dataset services", "raise max_connections by 1,"]);
        check(0, &["warning  ", "0 dataset services", "by 96,", "LIMIT of the role"]);
        check(40, &["1 dataset service of", "to 96"]);
    }
}
