//! Tests of reading the file: what is documented works, and a mistake is told with its place.

use std::path::Path;

use rethread_assistant::model::Models;

use super::*;

fn read(text: &str) -> Result<ConfigFile, String> {
    ConfigFile::parse(Path::new("/home/me/config.toml"), text).map_err(|mistake| mistake.to_string())
}

fn written(text: &str) -> Result<Vec<ProviderConfig>, String> {
    Ok(read(text)?.providers)
}

#[test]
fn providers_and_their_models_are_read() {
    let text = "[[provider]]\nname = \"mine\"\nkind = \"openai\"\nbase_url = \"http://localhost:1\"\n\
                [[provider.models]]\nid = \"m\"\ncontext_window = 1000\n";
    let providers = written(text).unwrap();
    assert_eq!(providers[0].name, "mine");
    assert_eq!(providers[0].models[0].context_window, Some(1000));
}

/// Every TOML block in the documentation, with its location.
fn documented() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files: Vec<_> =
        std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(root.join("README.md"));
    let mut blocks = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut rest = text.as_str();
        while let Some((before, from)) = rest.split_once("```toml\n") {
            let (block, after) = from.split_once("```").unwrap();
            let line = text.len() - rest.len() + before.len();
            let line = text[..line].matches('\n').count() + 1;
            blocks.push((format!("{}, line {line}", file.display()), block.to_owned()));
            rest = after;
        }
        let indented = text.lines().any(|line| line.starts_with("    kind = "));
        assert!(!indented, "{}: configuration is written in blocks of ```toml", file.display());
    }
    blocks
}

#[test]
fn every_configuration_of_the_documentation_works() {
    let blocks = documented();
    assert!(blocks.len() >= 2, "{blocks:?}");
    for (position, block) in blocks {
        let providers = written(&block).unwrap_or_else(|why| panic!("{position}: {why}"));
        Models::new(providers).unwrap_or_else(|why| panic!("{position}: {why}"));
    }
}

#[test]
fn a_mistake_is_told_with_its_line_and_key_and_what_was_meant() {
    let provider = "[[provider]]\nname = \"mine\"\nkind = \"openai\"\n";
    let second = "[[provider]]\nname = \"other\"\nkind = \"openai\"\n";
    let cases = [
        ("keyy = \"sk-123456\"", "line 4: unknown key `keyy`: did you mean `key`?"),
        ("baseurl = \"http://x\"", "line 4: unknown key `baseurl`: did you mean `base_url`?"),
        (
            "[[provider.models]]\nid = \"m\"\nwindow = 5",
            "line 6: unknown key `window`: did you mean `context_window`?",
        ),
        ("[[models]]\nid = \"m\"", "line 4: unknown key `models`: did you mean `[[provider.models]]`?"),
        ("[[providers]]\nname = \"m\"", "line 4: unknown key `providers`: did you mean `[[provider]]`?"),
        ("[server]\nport = 1", "line 4: unknown key `server`: did you mean `[serve]`?"),
        ("[network]\nport = 1", "line 4: unknown key `network`: expected `default_agent`, `[agents.NAME]`, "),
        (
            "[[provider.models]]\nid = \"m\"\nefforts = [\"hihg\"]",
            "line 6: key `efforts`: unknown value `hihg`: did you mean `high`?",
        ),
        (
            "[[provider]]\nname = \"b\"\nkind = \"opnai\"",
            "line 6: key `kind`: unknown value `opnai`: did you mean `openai`?",
        ),
        ("[[provider]]\nname = \"b\"", "line 4: missing key `kind`"),
        (
            "[[provider.models]]\nid = \"m\"\ncontext_window = \"sk-123456\"",
            "line 6: key `context_window`: invalid type string, expected u64",
        ),
        ("key = sk-123456", "line 4: key `key`: "),
        (
            &format!("{second}base_url = \"ftp://x\""),
            "line 7: key `base_url`: the base URL of provider other is invalid",
        ),
        (
            &format!("{second}[[provider.models]]\nid = \" \""),
            "line 8: key `id`: a model of provider other has the id",
        ),
        (provider, "line 5: key `name`: two providers are called mine"),
        ("[[provider]]\nkind = \"openai\"\nname = \"a/b\"", "line 6: key `name`: provider name \"a/b\""),
    ];
    for (text, expected) in cases {
        let wrong = written(&format!("{provider}{text}\n")).unwrap_err();
        assert!(wrong.starts_with(&format!("/home/me/config.toml, {expected}")), "{text:?}: {wrong}");
        assert!(!wrong.contains("sk-123456"), "{wrong}");
    }
    for (text, heading) in [
        ("name = \"work\"", "[[provider]]"),
        ("command = [\"x\"]", "[agents.NAME]"),
        ("mode = \"ask\"", "[assistant]"),
    ] {
        let wrong = written(text).unwrap_err();
        assert!(wrong.ends_with(&format!("it goes below a line `{heading}`")), "{wrong}");
    }
}

#[test]
fn agents_and_the_assistants_defaults_are_read() {
    let text = r#"
        default_agent = "codex"
        [agents.codex]
        command = ["codex-acp", "--flag"]
        env = { OPENAI_API_KEY = " sk-1 ", B = "" }
        [agents."my agent"]
        command = ["/opt/agent"]
        [assistant]
        model = "work/a/b"
        mode = "architect"
        [[assistant.mcp_servers]]
        name = "files"
        command = "mcp-files"
        args = ["--root", "."]
        [[assistant.mcp_servers]]
        name = "web"
        url = "https://x.example/mcp"
        transport = "sse"
    "#;
    let config = read(text).unwrap();
    assert_eq!(config.default_agent.as_deref(), Some("codex"));
    assert_eq!(config.agents["codex"].command, ["codex-acp", "--flag"]);
    let env: Vec<_> = config.agents["codex"].env.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(env, [("B", ""), ("OPENAI_API_KEY", " sk-1 ")], "values are kept as they are written");
    assert_eq!(config.agents["my agent"].command, ["/opt/agent"]);
    assert_eq!(config.assistant.model.as_deref(), Some("work/a/b"));
    assert_eq!(config.assistant.mode, Some(Mode::Architect));
    let names: Vec<_> = config.assistant.servers.iter().map(ServerConfig::name).collect();
    assert_eq!(names, ["files", "web"]);
    assert!(matches!(config.assistant.servers[1], ServerConfig::Sse { .. }));
}

#[test]
fn mistakes_in_agents_and_the_assistant_have_their_line() {
    let cases = [
        ("default_agnet = \"x\"", "line 1: unknown key `default_agnet`: did you mean `default_agent`?"),
        ("[agent.x]\ncommand = [\"x\"]", "line 1: unknown key `agent`: did you mean `[agents.NAME]`?"),
        ("[agents.x]\ncomand = [\"x\"]", "line 2: unknown key `comand`: did you mean `command`?"),
        ("[agents.x]\nenv = {}", "line 1: missing key `command`"),
        (
            "[agents.x]\ncommand = \"sk-123456\"",
            "line 2: key `command`: invalid type string, expected a sequence",
        ),
        ("[agents.x]\ncommand = []", "line 2: agent `x`: key `command`: it names no program"),
        ("[agents.x]\n\ncommand = [\" \"]", "line 3: agent `x`: key `command`: it names no program"),
        (
            "[agents.assistant]\ncommand = [\"x\"]",
            "line 1: agent `assistant`: this is the name of the built-in assistant; choose another one",
        ),
        ("[agents.\"a/b\"]\ncommand = [\"x\"]", "line 1: agent `a/b`: a name must not"),
        ("[agents.x]\ncommand = [\"x\"]\nenv = { A = 123456 }", "line 3: key `env`: invalid type integer"),
        (
            "[agents.x]\ncommand = [\"x\"]\n[agents.x.env]\n\"A=B\" = \"sk-123456\"",
            "line 4: agent `x`: key `env`: this cannot be an environment variable",
        ),
        ("[assistant]\nmodle = \"a/b\"", "line 2: unknown key `modle`: did you mean `model`?"),
        ("[assistant]\nmodel = \"gpt\"", "line 2: key `model`: a model is named as `provider/model`"),
        ("[assistant]\nmode = \"aks\"", "line 2: key `mode`: unknown value `aks`: did you mean `ask`?"),
        ("[assistant]\nmode = \"sk-123456\"", "line 2: key `mode`: unknown value: expected one of `code`"),
        ("[[assistant.mcp_servers]]\nname = \"a\"", "line 2: key `name`: MCP server \"a\": it has neither"),
        (
            "[[assistant.mcp_servers]]\nname = \"a\"\ncommand = \"x\"\nurl = \"http://x\"",
            "line 4: key `url`: MCP server \"a\": it has a command and an address",
        ),
        (
            "[[assistant.mcp_servers]]\nname = \"a\"\nurl = \"sk-123456\"",
            "line 3: key `url`: MCP server \"a\": an address begins with http:// or https://",
        ),
        (
            "[[assistant.mcp_servers]]\nname = \"a\"\nurl = \"http://x\"\nenv = { A = \"sk-123456\" }",
            "line 4: key `env`: MCP server \"a\": only a server with `command` has an environment",
        ),
        (
            "[import]\nwatch = [\"codex\",\n\"claud\"]",
            "line 3: key `watch`: unknown tool `claud`: did you mean `claude`?",
        ),
        (
            "[import]\nwatch = [\"sk-123456\"]",
            "line 2: key `watch`: unknown tool: expected one of claude, codex",
        ),
        ("[agents.x]\ncommand = [\"x\"\nenv = {}", "line 3"),
        ("key = \"sk-123456", "line 1"),
        ("[agents.x\n", "line 1"),
        ("a = 1\na = \"sk-123456\"", "line 2"),
    ];
    for (text, expected) in cases {
        let wrong = read(text).unwrap_err();
        assert!(wrong.starts_with(&format!("/home/me/config.toml, {expected}")), "{text:?}: {wrong}");
        assert!(!wrong.contains("123456"), "{wrong}");
    }
}
