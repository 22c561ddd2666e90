//! The real agents: how they are started, and what of their nature the scenes must know.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An agent that `.ci/real-agents` can install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    Claude,
    Codex,
    Opencode,
    Gemini,
    Qwen,
}

impl Agent {
    const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Opencode, Self::Gemini, Self::Qwen];

    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|agent| agent.name() == name);
        found.unwrap_or_else(|| panic!("no real agent is called {name}"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    /// Whether it speaks version 2 of the protocol.
    pub(crate) fn speaks_version_2(self) -> bool {
        match self {
            Self::Claude | Self::Codex => true,
            Self::Opencode | Self::Gemini | Self::Qwen => false,
        }
    }

    /// The mode in which it asks the user before it runs a command, if that is not its first one.
    pub(crate) fn asking_mode(self) -> Option<&'static str> {
        match self {
            Self::Codex => Some("workspace-write"),
            Self::Claude | Self::Opencode | Self::Gemini | Self::Qwen => None,
        }
    }

    /// How the path ends on which it asks its model.
    pub(crate) fn asks_at(self) -> &'static str {
        match self {
            Self::Claude => "/messages",
            Self::Codex => "/responses",
            Self::Opencode | Self::Qwen => "/chat/completions",
            Self::Gemini => ":streamGenerateContent",
        }
    }

    pub(crate) fn is_installed(self) -> bool {
        let asked = Command::new(runner()).args(["installed", self.name()]).status();
        asked.expect("the runner runs").success()
    }

    /// The command that becomes this agent, with its files in a folder and its model on a port.
    pub(crate) fn command(self, files: &Path, port: u16) -> Vec<OsString> {
        vec![runner().into(), "run".into(), self.name().into(), files.into(), port.to_string().into()]
    }
}

fn runner() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in a workspace")
        .join(".ci/real-agents")
}
