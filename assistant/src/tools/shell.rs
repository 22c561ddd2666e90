//! Finds the shell for commands: bash if it is installed, because models write for it, else `/bin/sh`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// The paths where bash may be installed.
const BASH: [&str; 5] = [
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
];

/// The shell of this machine for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// Bash, at this path.
    Bash(&'static str),
    /// The standard shell of the system, `/bin/sh`.
    Standard,
}

impl Shell {
    /// The path of the program.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Bash(path) => path,
            Self::Standard => "/bin/sh",
        }
    }

    /// The name for users and models.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash(_) => "bash",
            Self::Standard => "/bin/sh",
        }
    }
}

/// The shell for commands, looked up once.
#[must_use]
pub fn shell() -> Shell {
    static FOUND: OnceLock<Shell> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let is_program = |path: &&str| {
            std::fs::metadata(Path::new(path))
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        BASH.iter().find(|path| is_program(path)).map_or(Shell::Standard, |path| Shell::Bash(path))
    })
}
