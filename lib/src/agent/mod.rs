//! Agents behind us: how one is started as a tree of processes, watched and ended (`process`, `guardian`), how
//! lines go to and from it (`peer`), how it is there when it is needed (`host`), and how its last words are told
//! (`quote`). What the lines mean is not known here.

pub mod guardian;
pub mod host;
pub mod peer;
pub mod pool;
pub mod process;
mod quote;
pub mod sessionless;
pub(crate) mod status;
pub mod stderr;

pub use status::AgentEnd;

/// How a session is brought back when its agent has lost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restore {
    /// By the agent itself if it can, else from the kept transcript.
    #[default]
    Auto,
    /// By the agent itself or not at all.
    Native,
    /// Always from the kept transcript.
    Reseed,
    /// Not at all: sessions can be read.
    ReadOnly,
}
