//! Document 1 from outside: functions executed on the nodes of a real cluster.

mod execute;
