//! How much the tools may do, as the options of a session say it. Asking for permission is somebody else's.

use super::spec::Effect;

/// What a session lets its tools do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// With files.
    pub files: FileAccess,
    /// With commands.
    pub terminal: TerminalAccess,
}

/// What tools may do with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// They are only looked at.
    ReadOnly,
    /// They are also changed.
    ReadWrite,
}

/// What tools may do with commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalAccess {
    /// None is run.
    Disabled,
    /// They are run. A command can do whatever the user can: no roots bind it.
    Enabled,
}

impl Access {
    /// Everything.
    pub const FULL: Self = Self { files: FileAccess::ReadWrite, terminal: TerminalAccess::Enabled };
    /// Looking only.
    pub const READ_ONLY: Self = Self { files: FileAccess::ReadOnly, terminal: TerminalAccess::Disabled };

    /// Says whether a tool with this effect may be used.
    #[must_use]
    pub fn allows(self, effect: Effect) -> bool {
        match effect {
            Effect::Reads => true,
            Effect::Writes => self.files == FileAccess::ReadWrite,
            Effect::Executes => self.terminal == TerminalAccess::Enabled,
        }
    }
}
