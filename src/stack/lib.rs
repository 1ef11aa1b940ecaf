//! The local stack: a head, three workers, the dataset service and the inference service. These nodes
//! and services are processes of this program on loopback, and store their state in one directory.
//! Further nodes can be added.
//!
//! [`start`] starts the stack, [`supervise`] restarts processes that exit, and [`running`] lets
//! other commands of the user find the stack. [`processes`] starts, stops and detaches processes
//! for the screen, which uses the interface in [`local`]. [`program`] runs the program of an
//! inference worker.
//!
//! The crate contains no service. Operations that need the files of a service (a key, an identity,
//! the functions of a head) are behind [`ServiceFiles`](start::ServiceFiles), which the command
//! line implements.
//!
//! Errors are `anyhow`'s, since no caller distinguishes them.
//!
//! ```no_run
//! use stack::running::find_running;
//! let addresses = find_running().expect("a local stack runs").addresses;
//! println!("head at {}", addresses.heads[0]);
//! ```

pub mod data_dir;
mod detached_nodes;
pub mod local;
mod members;
pub mod process;
pub mod processes;
pub mod program;
pub mod running;
pub mod start;
pub mod supervise;
mod usage;
