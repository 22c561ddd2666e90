//! A model server, a home of the program and a folder for the files of each agent.

use std::ffi::OsString;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rethread::edge::Version;
use rethread_testkit::model::ModelServer;
use rethread_testkit::program::{Home, Program};
use serde_json::Value;

use super::agents::Agent;

/// What a real agent may take for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Stage {
    pub(crate) model: ModelServer,
    /// Where sessions work.
    pub(crate) cwd: String,
    home: Home,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let home = Home::new(env!("CARGO_BIN_EXE_rethread"));
        let cwd = home.beside().join("work");
        fs::create_dir(&cwd).expect("a folder can be made");
        let cwd = cwd.to_str().expect("the folder for tests has a plain name").to_owned();
        Self { model: ModelServer::start(), cwd, home }
    }

    /// Starts the program with an agent behind it, and initializes.
    pub(crate) async fn start(&self, client: Version, agent: Agent, options: &[&str]) -> Program {
        let mut command = self.home.command(&["acp"]);
        command.args(options).arg("--").args(self.command_of(agent));
        initialized(Program::start(command, client)).await
    }

    /// Starts the agent with nothing between it and the client, and initializes.
    pub(crate) async fn start_alone(&self, client: Version, agent: Agent) -> Program {
        let words = self.command_of(agent);
        let mut command = tokio::process::Command::new(&words[0]);
        command.args(&words[1..]).kill_on_drop(true);
        initialized(Program::start(command, client)).await
    }

    /// Imports the sessions that an agent has written, and returns the report.
    pub(crate) async fn import(&self, agent: Agent) -> Value {
        let mut command = self.home.command(&["import", agent.name(), "--json"]);
        command.env("HOME", self.home.beside().join(agent.name()));
        let elsewhere =
            ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "QWEN_RUNTIME_DIR"];
        for name in elsewhere.iter().chain(&["OPENCODE_DB", "XDG_DATA_HOME", "XDG_CONFIG_HOME"]) {
            command.env_remove(name);
        }
        let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output().await.expect("it runs");
        assert!(output.status.success(), "the import failed");
        let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        report["tools"][0].clone()
    }

    fn command_of(&self, agent: Agent) -> Vec<OsString> {
        agent.command(&self.home.beside().join(agent.name()), self.model.port())
    }
}

async fn initialized(program: Program) -> Program {
    program.client.set_deadline(PATIENCE);
    program.client.initialize().await;
    program
}
