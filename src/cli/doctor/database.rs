//! The servers that datasets, accounts and networks are kept in, and their standbys.

use db::postgres::DatabaseUrl;
use task::causes::chain;
use tsdb::store::postgres::look::{LookedAt, ServerSeen, look};

use super::Finding;

/// What a server is to the services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It takes writes.
    Store,
    /// It follows one that does.
    Standby,
}

/// Looks at the server at `url` and the further ones of its catalog.
pub(super) async fn check(url: &DatabaseUrl, role: Role) -> Vec<Finding> {
    look(url).await.into_iter().map(|looked_at| finding(looked_at, role)).collect()
}

fn finding(LookedAt { name, url, seen }: LookedAt, role: Role) -> Finding {
    let what = match (&name, role) {
        (Some(name), _) => format!("store {name} at {url}"),
        (None, Role::Store) => format!("store at {url}"),
        (None, Role::Standby) => format!("standby at {url}"),
    };
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => {
            let next = "check that it runs, its host and port, and PGPASSWORD or ~/.pgpass";
            return Finding::wrong(what, format!("cannot {}", chain(&error)), next);
        }
    };
    let ServerSeen { version, is_too_old, is_standby, format } = seen;
    let version = format!("PostgreSQL {version}");
    let wrong = |seen: &str, next: &str| Finding::wrong(&what, format!("{version}, {seen}"), next);
    if is_too_old {
        return wrong("which is too old", "upgrade it to PostgreSQL 15 or later");
    }
    match (role, is_standby) {
        (Role::Store, true) => wrong(
            "a standby, which takes no writes",
            "name the server that leads, or a balancer that finds it; standbys with --standby",
        ),
        (Role::Standby, false) => {
            wrong("which follows no other server", "name a standby of the store")
        }
        _ => match format {
            Some(ServerSeen::FORMAT) => {
                Finding::ok(what, format!("{version}, tables of format {}", ServerSeen::FORMAT))
            }
            Some(format) => wrong(
                &format!("tables of format {format}; this program reads {}", ServerSeen::FORMAT),
                "use the program that made them; see UPGRADE in `triptych man operate`",
            ),
            None => {
                Finding::ok(what, format!("{version}, no tables: the first service makes them"))
            }
        },
    }
}
