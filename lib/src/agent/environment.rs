//! The environment variables that a process is started with: those of this process, or exactly a given set.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::Command;
use std::sync::Arc;

/// Variables that differ between the windows and terminals of one user. Two environments that differ only in these are
/// the same for an agent process that several clients share.
const PER_WINDOW: &[&str] = &[
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_TTY",
    "INVOCATION_ID",
    "ITERM_SESSION_ID",
    "JOURNAL_STREAM",
    "KITTY_PID",
    "KITTY_WINDOW_ID",
    "LINES",
    "OLDPWD",
    "PPID",
    "PWD",
    "SHELL_SESSION_ID",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "STY",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "TTY",
    "VSCODE_IPC_HOOK",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_PID",
    "WAYLAND_SOCKET",
    "WEZTERM_PANE",
    "WINDOW",
    "WINDOWID",
    "XDG_ACTIVATION_TOKEN",
    "XDG_SESSION_ID",
    "ZED_TERM",
    "_",
];

/// The environment that a process is started with.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Environment {
    /// That of this process.
    #[default]
    Inherited,
    /// These variables and no others. The values may be secret, so they are never shown.
    Exact(Arc<[(OsString, OsString)]>),
}

impl Environment {
    /// Exactly these variables.
    pub fn exact(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self::Exact(variables.into_iter().collect())
    }

    /// Starts a command with this environment. Variables that are set on the command later are added.
    pub fn apply(&self, command: &mut Command) {
        match self {
            Self::Inherited => {}
            Self::Exact(variables) => {
                command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
            }
        }
    }

    /// The value of a variable of an exact environment.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        match self {
            Self::Inherited => None,
            Self::Exact(variables) => {
                variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
            }
        }
    }

    /// A text that is equal for environments which one agent process can serve. It has the values in it: it is for
    /// comparing, and must not be stored or shown.
    pub(crate) fn comparable(&self) -> String {
        match self {
            Self::Inherited => String::new(),
            Self::Exact(variables) => {
                let lasting = |(name, _): &&(OsString, OsString)| !PER_WINDOW.iter().any(|own| name == own);
                let mut lasting: Vec<_> = variables.iter().filter(lasting).collect();
                lasting.sort();
                format!("{lasting:?}")
            }
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherited => f.write_str("Inherited"),
            Self::Exact(variables) => write!(f, "Exact({} variables)", variables.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        Environment::exact(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn windows_of_one_user_have_comparable_environments() {
        let one = of(&[("PATH", "/bin"), ("TMUX_PANE", "%1"), ("KEY", "a")]);
        let other = of(&[("KEY", "a"), ("PATH", "/bin"), ("TMUX_PANE", "%2"), ("SHLVL", "3")]);
        assert_eq!(one.comparable(), other.comparable());
        assert_ne!(one.comparable(), of(&[("PATH", "/bin"), ("KEY", "b")]).comparable());
    }

    #[test]
    fn values_are_not_shown() {
        assert_eq!(format!("{:?}", of(&[("KEY", "sk-1234")])), "Exact(1 variables)");
    }

    #[test]
    fn a_command_gets_exactly_these_variables() {
        let mut command = Command::new("/usr/bin/env");
        of(&[("ONE", "1"), ("TWO", "2 2")]).apply(&mut command);
        let output = command.output().expect("`env` runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ONE=1\nTWO=2 2\n");
    }
}
