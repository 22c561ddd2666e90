//! `rethread config` and `rethread models`: what they say of a good configuration, of wrong ones and of none, and that no
//! secret is printed.

use std::os::unix::fs::PermissionsExt;

use expect_test::expect;

use super::Shell;

const GOOD: &str = r#"
# The key is sk-comment-123456.
default_agent = "mine"

[agents.mine]
command = ["sh", "-c", "exit", "--token", "sk-argument-123456"]
env = { API_KEY = "sk-env-123456", PLAIN = "not-for-others" }

[assistant]
model = "work/m"
mode = "ask"

[[assistant.mcp_servers]]
name = "files"
command = "mcp-files"
env = { TOKEN = "sk-server-123456" }

[[provider]]
name = "work"
kind = "openai"
base_url = "http://me:sk-url-123456@127.0.0.1:9/v1?key=sk-query-123456"
key = "sk-key-123456"

[[provider.models]]
id = "m"
context_window = 1000
price = { input = 0.5, output = 1.25 }

[[provider]]
name = "claude"
kind = "anthropic"

[[provider.models]]
id = "c"
"#;

#[test]
fn what_is_in_effect_is_shown_without_secrets() {
    let shell = Shell::new();
    shell.configure(GOOD);
    shell.check(
        &["config", "show"],
        &expect![[r##"
            # /tmp/home/config.toml
            default_agent = "mine"

            [agents.mine]
            command = ["sh", "-c", "exit", "--token", "[secret]"]

            [agents.mine.env]
            API_KEY = "[secret]"
            PLAIN = "[secret]"

            [assistant]
            model = "work/m"
            mode = "ask"

            [[assistant.mcp_servers]]
            name = "files"
            command = "mcp-files"

            [assistant.mcp_servers.env]
            TOKEN = "[secret]"

            [[provider]]
            name = "work"
            kind = "openai"
            base_url = "http://127.0.0.1:9/v1"
            key = "[secret]"

            [[provider.models]]
            id = "m"
            context_window = 1000

            [provider.models.price]
            input = 0.5
            output = 1.25

            [[provider]]
            name = "claude"
            kind = "anthropic"

            [[provider.models]]
            id = "c"
        "##]],
    );
    for command in [
        &["config", "show", "--json"][..],
        &["config", "check", "--json"],
        &["models", "--json"],
        &["agents", "--json"],
    ] {
        let said = shell.run(command);
        let text = said.stdout + &said.stderr;
        assert_eq!(said.code, Some(0), "{text}");
        assert!(!text.contains("123456") && !text.contains("not-for-others"), "{command:?}: {text}");
    }
}

#[test]
fn keys_of_the_environment_are_in_effect_and_not_shown() {
    let shell = Shell::new();
    let mut command = shell.command(&["config", "show"]).into_std();
    let output = command.env("OPENAI_API_KEY", "sk-env-123456").output().expect("it runs");
    expect![[r##"
        # /tmp/home/config.toml (does not exist)

        # from the environment
        [[provider]]
        name = "openai"
        kind = "openai"
        key = "[secret]"
        key_env = "OPENAI_API_KEY"
    "##]]
    .assert_eq(&shell.normalized(&String::from_utf8(output.stdout).expect("UTF-8")));
}

#[test]
fn a_good_file_is_valid() {
    let shell = Shell::new();
    shell.configure(GOOD);
    shell.check(
        &["config", "path"],
        &expect![[r#"
        /tmp/home/config.toml
    "#]],
    );
    shell.check(
        &["config", "path", "--json"],
        &expect![[r#"
        {
          "path": "/tmp/home/config.toml",
          "exists": true
        }
    "#]],
    );
    shell.check(
        &["config", "check"],
        &expect![[r#"
        /tmp/home/config.toml is valid: 1 agent, 2 providers, 1 MCP server.
    "#]],
    );
}

#[test]
fn a_missing_file_is_no_mistake() {
    let shell = Shell::new();
    shell.check(
        &["config", "check"],
        &expect![[r#"
        /tmp/home/config.toml does not exist; `rethread config edit` makes one.
    "#]],
    );
    shell.check(
        &["config", "show"],
        &expect![[r#"
        # /tmp/home/config.toml (does not exist)
    "#]],
    );
    assert!(!shell.home.path().exists(), "nothing is created");
}

#[test]
fn what_does_not_work_now_is_a_warning() {
    let shell = Shell::new();
    shell.configure(
        "default_agent = \"mien\"\n[agents.mine]\ncommand = [\"no-such-program-anywhere\"]\n\
         [assistant]\nmodel = \"wrok/m\"\n[[provider]]\nname = \"work\"\nkind = \"openai\"\nkey = \"sk-123456\"\n",
    );
    let file = shell.home.path().join("config.toml");
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).expect("our own file");
    shell.check(
        &["config", "check"],
        &expect![[r#"
        warning: key `default_agent`: no agent is called mien
        hint: did you mean `mine`?
        warning: agent mine: program no-such-program-anywhere was not found
        hint: install it, or give its full path
        warning: key `model`: no provider is called wrok
        hint: did you mean `work`?
        warning: others can read /tmp/home/config.toml, which may have secrets in it
        hint: run `chmod 600 /tmp/home/config.toml`
        /tmp/home/config.toml is valid: 1 agent, 1 provider, 0 MCP servers.
    "#]],
    );
    shell.check(
        &["config", "check", "--json"],
        &expect![[r#"
        {
          "path": "/tmp/home/config.toml",
          "exists": true,
          "valid": true,
          "problems": [
            {
              "severity": "warning",
              "line": null,
              "message": "key `default_agent`: no agent is called mien",
              "hint": "did you mean `mine`?"
            },
            {
              "severity": "warning",
              "line": null,
              "message": "agent mine: program no-such-program-anywhere was not found",
              "hint": "install it, or give its full path"
            },
            {
              "severity": "warning",
              "line": null,
              "message": "key `model`: no provider is called wrok",
              "hint": "did you mean `work`?"
            },
            {
              "severity": "warning",
              "line": null,
              "message": "others can read /tmp/home/config.toml, which may have secrets in it",
              "hint": "run `chmod 600 /tmp/home/config.toml`"
            }
          ]
        }
    "#]],
    );
}

#[test]
fn a_wrong_file_is_reported_with_its_line_and_without_its_values() {
    let shell = Shell::new();
    let cases = [
        ("[agents.x]\ncomand = [\"sk-123456\"]\n", "line 2: unknown key `comand`: did you mean `command`?"),
        ("[[provider]]\nname = \"a\"\nkind = 123456\n", "line 3: key `kind`: "),
        ("[[provider]]\nname = \"a\"\nkind = \"openai\"\nkey = sk-123456\n", "line 4: key `key`: "),
        ("[agents.x]\ncommand = [\"sk-123456\"\n", "line "),
        ("\u{1b}[31m = \"sk-123456\"\n", "line 1: "),
    ];
    for (text, expected) in cases {
        shell.configure(text);
        let said = shell.run(&["config", "check"]);
        assert_eq!(said.code, Some(1), "{text:?}: {}", said.stdout);
        let beginning = format!("error: /tmp/home/config.toml, {expected}");
        assert!(said.stdout.starts_with(&beginning), "{text:?}: {}", said.stdout);
        for command in [&["config", "show"][..], &["models"], &["agents"], &["acp", "x"]] {
            let said = shell.run(command);
            assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{command:?}: {}", said.stderr);
            assert!(said.stderr.starts_with(&beginning), "{command:?}: {}", said.stderr);
            assert!(!said.stderr.contains("123456") && !said.stderr.contains('\u{1b}'), "{}", said.stderr);
        }
    }
    shell.configure("[agents.x]\ncommand = 5\n");
    let said = shell.run(&["config", "check", "--json"]);
    assert_eq!(said.code, Some(1));
    expect![[r#"
        {
          "path": "/tmp/home/config.toml",
          "exists": true,
          "valid": false,
          "problems": [
            {
              "severity": "error",
              "line": 2,
              "message": "key `command`: invalid type integer, expected a sequence",
              "hint": null
            }
          ]
        }
    "#]]
    .assert_eq(&said.stdout);
}

#[test]
fn an_unreadable_file_is_reported() {
    let shell = Shell::new();
    shell.configure("");
    let file = shell.home.path().join("config.toml");
    std::fs::remove_file(&file).expect("it is there");
    std::fs::create_dir(&file).expect("a folder");
    let said = shell.run(&["config", "check"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.starts_with("error: /tmp/home/config.toml cannot be read: "), "{}", said.stdout);
}

#[test]
fn the_editor_of_the_environment_opens_the_file_and_it_is_checked() {
    let shell = Shell::new();
    let file = shell.home.path().join("config.toml");
    let edit = |name: &str, editor: &str| {
        let mut command = shell.command(&["config", "edit"]).into_std();
        command.env_remove("VISUAL").env_remove("EDITOR").env(name, editor);
        let output = command.output().expect("it runs");
        let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
        (output.status.code(), shell.normalized(&text))
    };
    // A new file explains itself, and is private.
    let (code, said) = edit("EDITOR", "grep -q default_agent");
    assert_eq!(code, Some(0), "{said}");
    expect![[r#"
        /tmp/home/config.toml is valid: 0 agents, 0 providers, 0 MCP servers.
    "#]]
    .assert_eq(&said);
    assert_eq!(std::fs::metadata(&file).expect("it exists").permissions().mode() & 0o777, 0o600);
    let (code, said) = edit("VISUAL", "printf 'defualt_agent = \"x\"' >");
    assert_eq!(code, Some(1));
    expect![[r#"
        error: /tmp/home/config.toml, line 1: unknown key `defualt_agent`: did you mean `default_agent`?
    "#]]
    .assert_eq(&said);
    let (code, said) = edit("EDITOR", "false");
    assert_eq!(code, Some(1));
    expect![[r#"
        error: the editor `false` failed: exit status: 1
        hint: set VISUAL or EDITOR to the command of your editor
    "#]]
    .assert_eq(&said);
}

#[test]
fn models_are_listed_by_provider() {
    let shell = Shell::new();
    shell.configure(GOOD);
    shell.check(
        &["models"],
        &expect![[r#"
        work (openai at http://127.0.0.1:9/v1): key present
          model            window  $/M in  $/M out  name
          work/m  default    1000    0.50     1.25  m

        claude (anthropic): no key: set ANTHROPIC_API_KEY
          model     name
          claude/c  c
    "#]],
    );
    shell.check(
        &["models", "--json"],
        &expect![[r#"
        {
          "default": "work/m",
          "providers": [
            {
              "name": "work",
              "kind": "openai",
              "baseUrl": "http://127.0.0.1:9/v1",
              "key": "present",
              "keyPlace": "`key` of provider work in /tmp/home/config.toml",
              "error": null,
              "models": [
                {
                  "id": "work/m",
                  "name": "m",
                  "contextWindow": 1000,
                  "inputPrice": 0.5,
                  "outputPrice": 1.25,
                  "default": true
                }
              ]
            },
            {
              "name": "claude",
              "kind": "anthropic",
              "baseUrl": null,
              "key": "missing",
              "keyPlace": "ANTHROPIC_API_KEY",
              "error": null,
              "models": [
                {
                  "id": "claude/c",
                  "name": "c",
                  "contextWindow": null,
                  "inputPrice": null,
                  "outputPrice": null,
                  "default": false
                }
              ]
            }
          ]
        }
    "#]],
    );
}

#[test]
fn a_provider_that_is_down_does_not_hide_the_others() {
    let shell = Shell::new();
    shell.configure(
        "[[provider]]\nname = \"down\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n\
         [[provider]]\nname = \"local\"\nkind = \"ollama\"\n[[provider.models]]\nid = \"m\"\n",
    );
    let said = shell.run(&["models"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(
        said.stdout.contains("down (openai at http://127.0.0.1:9): no key\n  Connection refused"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("local/m"), "{}", said.stdout);
    let said = shell.run(&["models", "--offline"]);
    assert!(!said.stdout.contains("refused"), "{}", said.stdout);
}

#[test]
fn without_a_provider_it_is_said_how_to_have_one() {
    Shell::new().check(&["models"], &expect![[r#"
        No model provider is configured. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, or add a [[provider]] to /tmp/home/config.toml.
    "#]]);
}
