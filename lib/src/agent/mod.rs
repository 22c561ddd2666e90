//! Agent processes: starting, watching and ending them as a process tree (`process`, `guardian`), message transport
//! (`peer`), starting on demand (`host`), the variables they are started with (`environment`), and quoting their output in
//! errors (`quote`). Independent of what the messages mean.

pub mod environment;
pub mod guardian;
pub(crate) mod heartbeat;
pub mod host;
pub mod peer;
pub mod pool;
pub mod process;
mod quote;
pub mod sessionless;
pub(crate) mod status;
pub mod stderr;

pub use status::AgentEnd;

/// How a session is restored when the agent may have lost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restore {
    /// By the agent itself if possible, otherwise from the stored transcript.
    #[default]
    Auto,
    /// By the agent itself or not at all.
    Native,
    /// Always from the stored transcript.
    Reseed,
    /// Not at all: sessions can only be read.
    ReadOnly,
}
