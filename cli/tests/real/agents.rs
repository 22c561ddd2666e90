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
    Kimi,
    Copilot,
    Pi,
    Vibe,
    Fast,
}

impl Agent {
    const ALL: [Self; 10] = [
        Self::Claude,
        Self::Codex,
        Self::Opencode,
        Self::Gemini,
        Self::Qwen,
        Self::Kimi,
        Self::Copilot,
        Self::Pi,
        Self::Vibe,
        Self::Fast,
    ];

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
            Self::Kimi => "kimi",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
            Self::Vibe => "vibe",
            Self::Fast => "fast",
        }
    }

    /// Whether it speaks version 2 of the protocol. Fast answers with 2 where it is offered that, and does not.
    pub(crate) fn speaks_version_2(self) -> bool {
        match self {
            Self::Claude | Self::Codex => true,
            Self::Opencode
            | Self::Gemini
            | Self::Qwen
            | Self::Kimi
            | Self::Copilot
            | Self::Pi
            | Self::Vibe
            | Self::Fast => false,
        }
    }

    /// How often it asks the user before it runs a command.
    pub(crate) fn asks_for_a_command(self) -> usize {
        match self {
            // It asks for nothing.
            Self::Pi => 0,
            Self::Claude
            | Self::Codex
            | Self::Opencode
            | Self::Gemini
            | Self::Qwen
            | Self::Kimi
            | Self::Copilot
            | Self::Vibe
            | Self::Fast => 1,
        }
    }

    /// The mode in which it asks the user before it runs a command, if that is not its first one.
    pub(crate) fn asking_mode(self) -> Option<&'static str> {
        match self {
            Self::Codex => Some("workspace-write"),
            Self::Vibe => Some("ask"),
            Self::Claude
            | Self::Opencode
            | Self::Gemini
            | Self::Qwen
            | Self::Kimi
            | Self::Copilot
            | Self::Pi
            | Self::Fast => None,
        }
    }

    /// Whether the program has a reader for its files, under its name.
    pub(crate) fn is_imported(self) -> bool {
        rethread::importer::readers().iter().any(|reader| reader.tool().name == self.name())
    }

    /// Whether a load soon after the last start may find nothing. Minutes later the same session is loaded.
    pub(crate) fn loses_what_it_loads(self) -> bool {
        self == Self::Gemini
    }

    /// Whether its files have the prompt of a turn that was cancelled.
    pub(crate) fn keeps_cancelled_prompts(self) -> bool {
        // It takes the turn back.
        self != Self::Gemini
    }

    /// What it says in a new session before it is asked anything.
    pub(crate) fn greeting(self) -> Option<&'static str> {
        (self == Self::Pi).then_some("pi v")
    }

    /// How the path ends on which it asks its model.
    pub(crate) fn asks_at(self) -> &'static str {
        match self {
            Self::Claude => "/messages",
            Self::Codex => "/responses",
            Self::Opencode | Self::Qwen | Self::Kimi | Self::Copilot | Self::Pi | Self::Vibe | Self::Fast => {
                "/chat/completions"
            }
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
