//! Document 1 from outside: functions executed on the nodes of a real cluster, and the commands that
//! handle functions.

mod command;
mod compile;
mod evict;
mod execute;
mod external;
mod files;
mod here;
mod install;
mod keys;
mod output;
