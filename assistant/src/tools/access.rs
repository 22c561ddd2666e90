//! What the options of a session allow its tools to do with files and commands. Does not ask the user.

use super::spec::Effect;

/// What tools are allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The access to files.
    pub files: FileAccess,
    /// The access to commands.
    pub terminal: TerminalAccess,
}

/// What tools may do with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// Files can be read.
    ReadOnly,
    /// Files can be read and changed.
    ReadWrite,
}

/// What tools may do with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalAccess {
    /// Commands are not run.
    Disabled,
    /// Commands are run. A command can do whatever the user can, also outside the roots.
    Enabled,
}

impl Access {
    /// All tools.
    pub const FULL: Self = Self { files: FileAccess::ReadWrite, terminal: TerminalAccess::Enabled };
    /// Only tools that read.
    pub const READ_ONLY: Self = Self { files: FileAccess::ReadOnly, terminal: TerminalAccess::Disabled };

    /// Whether a tool with this effect is allowed.
    #[must_use]
    pub fn allows(self, effect: Effect) -> bool {
        match effect {
            Effect::Reads => true,
            Effect::Writes => self.files == FileAccess::ReadWrite,
            Effect::Executes => self.terminal == TerminalAccess::Enabled,
        }
    }
}
