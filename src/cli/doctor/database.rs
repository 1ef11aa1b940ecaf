//! The database that keeps datasets, accounts and networks, and the archive of old rows.

use db::postgres::{DatabaseUrl, fault::diagnose};
use model::count::counted;
use task::causes::chain;
use tokio::task::spawn_blocking;
use tsdb::{
    archive::objects::{ArchiveUrl, Objects},
    store::{
        StoreError,
        postgres::{
            CONNECTIONS_MAX,
            look::{ConnectionLimit, LimitedBy, ServerSeen, UserRights, look},
        },
    },
};

use super::Finding;

/// Encoding of a database that holds every text.
const ENCODING: &str = "UTF8";

/// Dataset services that a server is to have connections for: two, so that one can be lost, and one that
/// is started in the place of another.
const SERVICES_MIN: u64 = 3;

/// Connections that a dataset service opens at most.
const PER_SERVICE: u64 = (CONNECTIONS_MAX + accounts::CONNECTIONS_MAX) as u64;

/// Looks at the database at `url`.
pub(super) async fn check(url: &DatabaseUrl) -> Finding {
    let what = format!("store at {url}");
    match look(url).await {
        Ok(seen) => finding(&what, seen),
        Err(error) => unusable(what, &error),
    }
}

/// Looks at the archive at `url`.
pub(super) async fn check_archive(url: ArchiveUrl) -> Finding {
    let what = format!("archive at {url}");
    let checked = spawn_blocking(move || Objects::open(&url)?.check()).await;
    match checked {
        Ok(Ok(())) => Finding::ok(what, "can be reached"),
        Ok(Err(error)) => Finding::wrong(what, chain(&error), error.advice()),
        Err(error) => Finding::wrong(what, chain(&error), "try again"),
    }
}

fn finding(what: &str, seen: ServerSeen) -> Finding {
    let ServerSeen { version, is_too_old, is_standby, format, limit, rights, encoding } = seen;
    let version = format!("PostgreSQL {version}");
    let wrong = |seen: &str, next: &str| Finding::wrong(what, format!("{version}, {seen}"), next);
    if is_too_old {
        return wrong("which is too old", "upgrade it to PostgreSQL 15 or later");
    }
    if encoding != ENCODING {
        return wrong(
            &format!("a database in {encoding}, which cannot hold all texts"),
            "make another one: createdb --encoding UTF8 --template template0 NAME",
        );
    }
    if rights == UserRights::NoUsage {
        return wrong(
            "a schema datasets that the user may not use",
            "let its owner GRANT USAGE ON SCHEMA datasets, accounts, inference TO user, and its tables",
        );
    }
    let tables = match format {
        Some(ServerSeen::FORMAT) => format!("tables of format {}", ServerSeen::FORMAT),
        Some(format) => {
            return wrong(
                &format!("tables of format {format}; this program reads {}", ServerSeen::FORMAT),
                "use the program that made them; see UPGRADE in `triptych man operate`",
            );
        }
        None if rights == UserRights::NoCreate => {
            return wrong(
                "no tables, and the user may not create them",
                "let its owner GRANT CREATE ON DATABASE name TO user",
            );
        }
        None => "no tables: the first service makes them".to_owned(),
    };
    if is_standby {
        return Finding::warning(
            what,
            format!("{version}, a standby, which takes no writes, {tables}"),
            "name the server that leads, or start the service with --read-only",
        );
    }
    let (room, next) = count_services(limit);
    let seen = format!("{version}, {tables}; {room}");
    next.map_or_else(|| Finding::ok(what, &seen), |next| Finding::warning(what, &seen, next))
}

/// The finding for a server that cannot be looked at.
fn unusable(what: String, error: &StoreError) -> Finding {
    let usual = "check that it runs, its host and port, and PGPASSWORD or ~/.pgpass";
    let problem = || (format!("cannot {}", chain(error)), usual);
    let (seen, next) = diagnose(error).map_or_else(problem, |found| (found.text, found.next));
    Finding::wrong(what, seen, next)
}

/// How many services fit, and what to do where those are too few.
fn count_services(limit: ConnectionLimit) -> (String, Option<String>) {
    let ConnectionLimit { n_max, by } = limit;
    let n_services = n_max / PER_SERVICE;
    let services = counted(n_services, "dataset service");
    let room = format!("{n_max} connections, enough for {services} of {PER_SERVICE} each");
    let n_wanted = SERVICES_MIN * PER_SERVICE;
    let next = match by {
        LimitedBy::Server => format!(
            "for {SERVICES_MIN} services raise max_connections by {}, which takes a restart of it",
            n_wanted.saturating_sub(n_max)
        ),
        LimitedBy::Role => {
            format!("for {SERVICES_MIN} services: ALTER ROLE … CONNECTION LIMIT {n_wanted}")
        }
        LimitedBy::Database => {
            format!("for {SERVICES_MIN} services: ALTER DATABASE … CONNECTION LIMIT {n_wanted}")
        }
    };
    (room, (n_services < SERVICES_MIN).then_some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(n_max: u64, by: LimitedBy, want: &[&str]) {
        let limit = ConnectionLimit { n_max, by };
        let seen = ServerSeen {
            version: "17.2".to_owned(),
            is_too_old: false,
            is_standby: false,
            format: Some(ServerSeen::FORMAT),
            limit,
            rights: UserRights::Enough,
            encoding: ENCODING.to_owned(),
        };
        let finding = finding("store at postgres://db/rows", seen);
        let line = crate::cli::doctor::text(&[finding]);
        assert!(want.iter().all(|part| line.contains(part)), "{line}");
    }

    #[test]
    fn fewer_than_three_services_are_warned_of_with_what_to_do() {
        let server = LimitedBy::Server;
        check(97, server, &["ok  ", "97 connections", "3 dataset services of 32 each"]);
        check(95, server, &["warning  ", "2 dataset services", "raise max_connections by 1,"]);
        check(0, server, &["warning  ", "0 dataset services", "max_connections by 96,"]);
        check(40, LimitedBy::Role, &["1 dataset service of", "ALTER ROLE", "LIMIT 96"]);
        check(40, LimitedBy::Database, &["ALTER DATABASE", "LIMIT 96"]);
    }
}
