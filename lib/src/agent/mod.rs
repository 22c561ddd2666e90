//! Agents behind us: how one is started as a tree of processes, watched and ended (`process`, `guardian`), how
//! lines go to and from it (`peer`), and how it is there when it is needed (`host`). What the lines mean is
//! not known here.

pub mod guardian;
pub mod host;
pub mod peer;
pub mod process;
mod status;
mod stderr;

pub use status::AgentEnd;
