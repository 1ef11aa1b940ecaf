//! Functions on the nodes of a real cluster, and the commands for functions.

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
