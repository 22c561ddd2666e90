//! `rethread agents` and `rethread acp NAME`: configured agents, well-known ones, and what their environment reaches.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use expect_test::expect;
use rethread::edge::Version;
use rethread_testkit::program::Program;
use serde_json::json;

use super::Shell;
use crate::pseudo_terminal::OnTerminal;

/// A folder with programs, to be the search path.
fn programs(shell: &Shell, names: &[(&str, &str)]) -> PathBuf {
    let folder = shell.home.beside().join("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, script) in names {
        let file = folder.join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    }
    folder
}

fn run_with_path(shell: &Shell, args: &[&str], path: &str) -> super::Said {
    let output = shell.command(args).into_std().env("PATH", path).output().expect("it runs");
    let text = |bytes: Vec<u8>| shell.normalized(&String::from_utf8(bytes).expect("UTF-8"));
    super::Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn configured_agents_and_those_that_are_installed_are_listed() {
    let shell = Shell::new();
    let folder = programs(&shell, &[("codex-acp", "exit"), ("gemini", "exit"), ("mine", "exit")]);
    // A file that is no program does not count.
    std::fs::write(folder.join("kimi"), "text").expect("a file");
    shell.configure(
        "default_agent = \"codex\"\n[agents.mine]\ncommand = [\"mine\", \"--acp\"]\n\
         [agents.gemini]\ncommand = [\"/nowhere/gemini\"]\n",
    );
    let path = folder.display().to_string();
    let said = run_with_path(&shell, &["agents"], &path);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    expect![[r#"
        name                from           command          found at
        gemini              configuration  /nowhere/gemini  not found
        mine                configuration  mine --acp       /tmp/bin/mine
        assistant           built in
        codex      default  well known     codex-acp        /tmp/bin/codex-acp
        Not installed: claude, opencode, qwen, kimi, copilot, pi, vibe, fast-agent; --all shows how to install them.
    "#]].assert_eq(&said.stdout);
    expect![[r#"
        name                from           command          found at
        gemini              configuration  /nowhere/gemini  not found
        mine                configuration  mine --acp       /tmp/bin/mine
        assistant           built in
        codex      default  well known     codex-acp        /tmp/bin/codex-acp

        Not installed:
          claude      npm install -g @agentclientprotocol/claude-agent-acp
          opencode    npm install -g opencode-ai
          qwen        npm install -g @qwen-code/qwen-code
          kimi        npm install -g @moonshot-ai/kimi-code
          copilot     npm install -g @github/copilot
          pi          npm install -g pi-acp @earendil-works/pi-coding-agent
          vibe        uv tool install mistral-vibe
          fast-agent  uv tool install fast-agent-acp
    "#]]
    .assert_eq(&run_with_path(&shell, &["agents", "--all"], &path).stdout);
    expect![[r#"
        {
          "agents": [
            {
              "name": "gemini",
              "title": null,
              "source": "configured",
              "command": [
                "/nowhere/gemini"
              ],
              "program": null,
              "installed": false,
              "install": null,
              "default": false
            },
            {
              "name": "mine",
              "title": null,
              "source": "configured",
              "command": [
                "mine",
                "--acp"
              ],
              "program": "/tmp/bin/mine",
              "installed": true,
              "install": null,
              "default": false
            },
            {
              "name": "assistant",
              "title": "Rethread's assistant",
              "source": "built-in",
              "command": [],
              "program": null,
              "installed": true,
              "install": null,
              "default": false
            },
            {
              "name": "codex",
              "title": "Codex",
              "source": "known",
              "command": [
                "codex-acp"
              ],
              "program": "/tmp/bin/codex-acp",
              "installed": true,
              "install": "npm install -g @agentclientprotocol/codex-acp",
              "default": true
            }
          ]
        }
    "#]]
    .assert_eq(&run_with_path(&shell, &["agents", "--json"], &path).stdout);
}

#[test]
fn a_name_that_names_nothing_gets_a_hint() {
    let shell = Shell::new();
    shell.configure("[agents.my-agent]\ncommand = [\"sh\"]\n");
    let cases = [
        (
            "my-agnet",
            expect![[r#"
                error: no agent is called my-agnet
                hint: did you mean my-agent? `rethread agents` lists the agents; a command goes after --
            "#]],
        ),
        (
            "codxe",
            expect![[r#"
                error: no agent is called codxe
                hint: did you mean codex? `rethread agents` lists the agents; a command goes after --
            "#]],
        ),
        (
            "nothing-like-it",
            expect![[r#"
                error: no agent is called nothing-like-it
                hint: `rethread agents` lists the agents; a command goes after --
            "#]],
        ),
        (
            "\u{1b}[2J",
            expect![[r#"
                error: no agent is called \u{1b}[2J
                hint: `rethread agents` lists the agents; a command goes after --
            "#]],
        ),
        (
            "codex",
            expect![[r#"
            error: Codex is not installed: codex-acp was not found
            hint: run `npm install -g @agentclientprotocol/codex-acp`
        "#]],
        ),
    ];
    for (name, expected) in cases {
        let said = run_with_path(&shell, &["acp", name], "/nowhere");
        assert_eq!((said.code, said.stdout.as_str()), (Some(3), ""), "{name:?}: {}", said.stderr);
        expected.assert_eq(&said.stderr);
    }
}

#[test]
fn options_behind_a_name_that_cannot_be_for_the_agent_get_a_hint() {
    let shell = Shell::new();
    shell.configure("[agents.x]\ncommand = [\"sh\", \"-c\", \"exit 0\"]\n");
    shell.check_failure(
        &["acp", "x", "--restor", "native"],
        2,
        &expect![[r#"
        error: --restor after x would go to the agent
        hint: for rethread, write --restore before x; for the agent: rethread acp -- x --restor
    "#]],
    );
    // What only resembles one is the agent's.
    let program = programs(&shell, &[("says", "echo \"$*\"")]).join("says").display().to_string();
    shell.configure(&format!("[agents.says]\ncommand = [{program:?}]\n[agents.x]\ncommand = [\"sh\"]\n"));
    let said = shell.run(&["acp", "--run-agent", "says", "--setup", "--agent", "--log"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "--setup --agent --log\n"));
    shell.check_failure(
        &["acp", "x", "login", "--serve"],
        2,
        &expect![[r#"
        error: --serve after x would go to the agent
        hint: for rethread, write --serve before x; for the agent: rethread acp -- x --serve
    "#]],
    );
    shell.check_failure(
        &["acp", "assistant", "login"],
        2,
        &expect![[r#"
        error: the built-in assistant takes no arguments
    "#]],
    );
    shell.check_failure(
        &["acp", "--run-agent"],
        2,
        &expect![[r#"
        error: --run-agent needs an agent
        hint: name one, or give its command after `--`
    "#]],
    );
    let said = shell.run(&["acp", "--no-such-option"]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    // One that rethread knows is its own, also behind the name.
    let said = shell.run(&["acp", "x", "--restore", "nonsense"]);
    assert!(said.code == Some(2) && said.stderr.contains("invalid value 'nonsense'"), "{}", said.stderr);
}

#[test]
fn a_broken_default_is_told() {
    let shell = Shell::new();
    shell.configure("default_agent = \"nothing-like-it\"\n");
    shell.check_failure(
        &["acp"],
        3,
        &expect![[r#"
        error: no agent is called nothing-like-it
        hint: correct `default_agent`; `rethread agents` lists the agents
    "#]],
    );
}

/// An agent that says on stderr what is in its environment, and answers `initialize`.
const AGENT: &str = r#"
echo "secret is $MY_SECRET, args are $*" >&2
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"env %s","version":"1"}}}\n' \
        "$id" "$MY_SECRET"
done
"#;

#[tokio::test]
async fn a_configured_agent_is_served_with_its_environment_which_nobody_else_gets() {
    let shell = Shell::new();
    let folder = programs(&shell, &[("env-agent", AGENT)]);
    let agent = folder.join("env-agent").display().to_string();
    shell.configure(&format!(
        "default_agent = \"mine\"\n[agents.mine]\ncommand = [{agent:?}, \"--one\"]\n\
         env = {{ MY_SECRET = \"sk-very-secret-1\" }}\n[agents.other]\ncommand = [{agent:?}]\n"
    ));
    for (words, secret, args) in [
        (&["acp", "mine"][..], "sk-very-secret-1", "--one"),
        (&["acp"], "sk-very-secret-1", "--one"),
        (&["acp", "mine", "--two", "three"], "sk-very-secret-1", "--one --two three"),
        (&["acp", "other"], "", ""),
        (&["acp", "--", &agent, "x"], "", "x"),
    ] {
        let program = Program::start(shell.home.command(words), Version::V1);
        let answer = program.client.ask("initialize", program.client.introduction()).await;
        let name = json!(format!("env {secret}"));
        assert_eq!(answer["agentInfo"]["name"], name, "{words:?}: {answer}");
        let log = shell.home.path().join("state/logs/agent.log");
        let log = std::fs::read_to_string(log).expect("the agent has said something");
        let last = log.lines().rev().find(|line| line.contains("args are")).expect("its words are logged");
        assert!(last.ends_with(&format!("args are {args}")), "{words:?}: {last}");
        assert!(!log.contains("sk-very-secret-1"), "{log}");
    }
}

#[test]
fn on_a_terminal_a_named_agent_runs_there_with_its_environment_and_more_arguments() {
    let shell = Shell::new();
    let folder = programs(&shell, &[("env-agent", "echo \"$MY_SECRET: $*\"; exit 7")]);
    let agent = folder.join("env-agent").display().to_string();
    shell.configure(&format!(
        "[agents.mine]\ncommand = [{agent:?}, \"--acp\"]\nenv = {{ MY_SECRET = \"word\" }}\n"
    ));
    let (status, said) = OnTerminal::start(shell.command(&["acp", "mine", "--setup", "login"])).ends();
    assert_eq!(status.code(), Some(7), "{said}");
    assert!(said.contains("word: --acp --setup login"), "{said}");
}

#[test]
fn on_a_terminal_without_an_agent_it_explains_itself() {
    let shell = Shell::new();
    shell.configure("default_agent = \"x\"\n[agents.x]\ncommand = [\"sh\"]\n");
    for words in [&["acp"][..], &["acp", "assistant"]] {
        let (status, said) = OnTerminal::start(shell.command(words)).ends();
        assert_eq!(status.code(), Some(2), "{said}");
        for part in ["for editors", "rethread agents", "rethread chat", "--serve"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(said.lines().count() <= 7, "{said}");
    }
}

#[tokio::test]
async fn a_session_remembers_the_name_of_its_agent_and_never_its_command() {
    let shell = Shell::new();
    let agent: Vec<String> =
        shell.home.scripted(Version::V1).iter().map(|word| word.to_string_lossy().into_owned()).collect();
    shell.configure(&format!(
        "[agents.mine]\ncommand = {agent:?}\nenv = {{ TOKEN = \"sk-very-secret-1\" }}\n"
    ));
    let name = || {
        let database = rusqlite::Connection::open(shell.home.path().join("rethread.db")).expect("a database");
        let sql = "SELECT agent_name FROM session";
        database.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).expect("a row")
    };
    let mut named = Program::start(shell.home.command(&["acp", "mine"]), Version::V1);
    named.client.initialize().await;
    let session = named.client.new_session().await;
    named.client.prompt(&session, "say one").await;
    assert_eq!(name().as_deref(), Some("mine"));
    named.client.disconnect().await;
    named.exited().await;
    let mut plain = shell.home.ready(Version::V1, Version::V1).await;
    plain.client.load(&session).await;
    plain.client.prompt(&session, "say two").await;
    plain.client.disconnect().await;
    plain.exited().await;
    assert_eq!(name(), None, "a command has no name");
    for (path, bytes) in super::doctor::contents(&shell.home.path()) {
        let secret = b"sk-very-secret-1";
        let config = path.ends_with("config.toml");
        assert!(config || !bytes.windows(secret.len()).any(|window| window == secret), "{}", path.display());
    }
}
