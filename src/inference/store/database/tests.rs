//! Databases for tests, on the server whose address is in `TRIPTYCH_TEST_POSTGRES`;
//! `tests/interop/postgres/tests.sh` starts one and runs them.

use std::{
    env, process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::*;

/// Counts the databases of this run.
static N_DATABASES: AtomicU32 = AtomicU32::new(0);

/// The address of a new database.
pub(crate) fn new_database() -> String {
    let server = env::var("TRIPTYCH_TEST_POSTGRES").expect("the address of a server");
    let nth = N_DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("inference_{}_{nth}", process::id());
    run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template0"));
    format!("{server}/{name}")
}

/// Runs `sql` in the database at `url`, also out of a task.
fn run(url: &str, sql: &str) {
    let work = async || {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    };
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap().block_on(work());
    thread::scope(|scope| scope.spawn(runtime).join().unwrap());
}
