//! The agents that Rethread is tested with, as data: their names, commands and packages. README.md has the same table.

/// An agent that speaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownAgent {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// The name for people.
    pub(crate) title: &'static str,
    /// The program and its arguments.
    pub(crate) command: &'static [&'static str],
    /// The package that contains it.
    pub(crate) package: &'static str,
    /// The command that installs it.
    pub(crate) install: &'static str,
}

/// All of them, in the order of README.md.
pub(crate) const KNOWN_AGENTS: [KnownAgent; 10] = [
    KnownAgent {
        name: "claude",
        title: "Claude Code",
        command: &["claude-agent-acp"],
        package: "@agentclientprotocol/claude-agent-acp",
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    KnownAgent {
        name: "codex",
        title: "Codex",
        command: &["codex-acp"],
        package: "@agentclientprotocol/codex-acp",
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    KnownAgent {
        name: "opencode",
        title: "opencode",
        command: &["opencode", "acp"],
        package: "opencode-ai",
        install: "npm install -g opencode-ai",
    },
    KnownAgent {
        name: "gemini",
        title: "Gemini CLI",
        command: &["gemini", "--acp"],
        package: "@google/gemini-cli",
        install: "npm install -g @google/gemini-cli",
    },
    KnownAgent {
        name: "qwen",
        title: "Qwen Code",
        command: &["qwen", "--acp"],
        package: "@qwen-code/qwen-code",
        install: "npm install -g @qwen-code/qwen-code",
    },
    KnownAgent {
        name: "kimi",
        title: "Kimi Code",
        command: &["kimi", "acp"],
        package: "@moonshot-ai/kimi-code",
        install: "npm install -g @moonshot-ai/kimi-code",
    },
    KnownAgent {
        name: "copilot",
        title: "Copilot CLI",
        command: &["copilot", "--acp"],
        package: "@github/copilot",
        install: "npm install -g @github/copilot",
    },
    KnownAgent {
        name: "pi",
        title: "pi",
        command: &["pi-acp"],
        package: "pi-acp",
        install: "npm install -g pi-acp @earendil-works/pi-coding-agent",
    },
    KnownAgent {
        name: "vibe",
        title: "Mistral Vibe",
        command: &["vibe-acp"],
        package: "mistral-vibe",
        install: "uv tool install mistral-vibe",
    },
    KnownAgent {
        name: "fast-agent",
        title: "fast-agent",
        command: &["fast-agent", "acp"],
        package: "fast-agent-acp",
        install: "uv tool install fast-agent-acp",
    },
];

/// The agent with this name.
pub(crate) fn known_agent(name: &str) -> Option<&'static KnownAgent> {
    KNOWN_AGENTS.iter().find(|agent| agent.name == name)
}

/// The agent that gives itself this name in `initialize`: its package, the last part of that, or its name.
pub(crate) fn known_by_own_name(own: &str) -> Option<&'static KnownAgent> {
    KNOWN_AGENTS.iter().find(|agent| {
        let last = agent.package.rsplit('/').next().unwrap_or_default();
        own == agent.package || own == last || own.eq_ignore_ascii_case(agent.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_known_by_what_they_call_themselves() {
        let known = |own: &str| known_by_own_name(own).map(|agent| agent.name);
        assert_eq!(known("@agentclientprotocol/claude-agent-acp"), Some("claude"));
        assert_eq!(known("gemini-cli"), Some("gemini"));
        assert_eq!(known("OpenCode"), Some("opencode"));
        assert_eq!(known("another"), None);
    }

    #[test]
    fn the_readme_has_the_same_agents() {
        let readme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let table = readme.split("| agent | package |").nth(1).unwrap().split("\n\n").next().unwrap();
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), KNOWN_AGENTS.len(), "{rows:?}");
        for (row, agent) in rows.iter().zip(KNOWN_AGENTS) {
            assert!(row.starts_with(&format!("| {} | `{}`", agent.title, agent.package)), "{row}");
            assert!(agent.install.contains(agent.package), "{}", agent.install);
        }
    }
}
