//! Tests of the built-in tools through their public API: specifications, arguments, and `file:` URLs.
#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod changes;
mod commands;
mod reading;
mod sandbox;

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread_assistant::tools::{
    Access, Effect, FileAccess, PreparedCall, TerminalAccess, ToolError, ToolOutcome, Toolbox,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The time limit of every step.
const DEADLINE: Duration = Duration::from_secs(20);

/// A directory with the roots `in` and `too`, and a secret in `out` beside them.
struct Place {
    _folder: TempDir,
    path: PathBuf,
    tools: Toolbox,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        for name in ["in/deep", "too", "out"] {
            fs::create_dir_all(path.join(name)).unwrap();
        }
        fs::write(path.join("in/a.txt"), "one\ntwo\nthree\n").unwrap();
        fs::write(path.join("in/deep/b.txt"), "deep\n").unwrap();
        fs::write(path.join("too/c.txt"), "too\n").unwrap();
        fs::write(path.join("out/secret.txt"), "secret\n").unwrap();
        let tools = Toolbox::new([path.join("in"), path.join("too")]);
        Self { _folder: folder, path, tools }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    async fn prepare(&self, tool: &str, arguments: Value) -> Result<PreparedCall, ToolError> {
        let prepared = self.tools.prepare(tool, &arguments, Access::FULL);
        tokio::time::timeout(DEADLINE, prepared).await.expect("it is prepared in time")
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, ToolError> {
        done(self.prepare(tool, arguments).await?).await
    }

    /// The text for the model, of a result or an error.
    async fn output(&self, tool: &str, arguments: Value) -> String {
        match self.call(tool, arguments).await {
            Ok(outcome) => outcome.text,
            Err(error) => error.text_for_model(),
        }
    }

    /// Asserts that nothing outside the roots has changed.
    fn is_untouched(&self) -> bool {
        let names = fs::read_dir(self.path("out")).unwrap().count();
        names == 1 && self.text("out/secret.txt") == "secret\n"
    }
}

async fn done(prepared: PreparedCall) -> Result<ToolOutcome, ToolError> {
    let (sink, _) = mpsc::channel(1);
    tokio::time::timeout(DEADLINE, prepared.run(sink, pending())).await.expect("it ends in time")
}

fn absolute(path: &Path) -> Value {
    json!(path.to_str().unwrap())
}

#[tokio::test]
async fn the_access_limits_the_tools() {
    let place = Place::new();
    let names = |files, terminal| {
        let specs = place.tools.describe(Access { files, terminal });
        specs.iter().map(|spec| spec.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(FileAccess::ReadOnly, TerminalAccess::Disabled), "read list find search");
    assert_eq!(names(FileAccess::ReadWrite, TerminalAccess::Disabled), "read list find search write edit");
    assert_eq!(names(FileAccess::ReadOnly, TerminalAccess::Enabled), "read list find search run");
    for (tool, arguments) in
        [("write", json!({"path": "x", "content": "x"})), ("run", json!({"command": "touch x"}))]
    {
        let refused = place.tools.prepare(tool, &arguments, Access::READ_ONLY).await.unwrap_err();
        let expected = format!("the mode or the tool settings of this session do not allow {tool}");
        assert_eq!(refused.to_string(), expected);
    }
    let unknown = place.tools.prepare("fly", &json!({}), Access::READ_ONLY).await.unwrap_err();
    assert_eq!(
        unknown.text_for_model(),
        "error: there is no tool \"fly\"\nhint: the tools are read, list, find, search"
    );
}

#[tokio::test]
async fn every_tool_says_what_it_takes() {
    for spec in Place::new().tools.describe(Access::FULL) {
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert_eq!(spec.schema["additionalProperties"], false, "{}", spec.name);
        let members = spec.schema["properties"].as_object().unwrap();
        for name in spec.schema["required"].as_array().unwrap() {
            assert!(members.contains_key(name.as_str().unwrap()), "{}: {name}", spec.name);
        }
        assert!(
            members.values().all(|member| member["description"].is_string() && member["type"].is_string())
        );
        let expected = match spec.kind.name() {
            "read" | "search" => Effect::Reads,
            "edit" => Effect::Writes,
            _ => Effect::Executes,
        };
        assert_eq!(spec.effect, expected, "{}", spec.name);
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let place = Place::new();
    for (tool, arguments, expected) in [
        ("read", json!({}), "argument `path` of read is missing, expected a string"),
        ("read", json!({"path": 7}), "argument `path` of read is 7, expected a string"),
        ("read", json!({"path": ""}), "argument `path` of read is \"\", expected a string that is not empty"),
        (
            "read",
            json!({"path": "a.txt", "limit": 5000}),
            "argument `limit` of read is 5000, expected a whole number from 1 to 2000",
        ),
        (
            "read",
            json!({"path": "a.txt", "offset": -1}),
            "argument `offset` of read is -1, expected a whole number from 1 to 1000000000",
        ),
        ("read", json!({"path": "a.txt", "lines": 3}), "read has no argument `lines`"),
        ("read", json!("a.txt"), "argument `arguments` of read is \"a.txt\", expected an object"),
        ("list", json!({"all": "maybe"}), "argument `all` of list is \"maybe\", expected true or false"),
        (
            "find",
            json!({"glob": "["}),
            "argument `glob` of find is \"[\", expected a pattern such as *.rs or src/**/*.rs",
        ),
        (
            "find",
            json!({"glob": "!x"}),
            "argument `glob` of find is \"!x\", expected a pattern such as *.rs or src/**/*.rs",
        ),
        (
            "search",
            json!({"pattern": "("}),
            "argument `pattern` of search is \"(\", expected a regular expression for one line",
        ),
        (
            "search",
            json!({"pattern": r"a\nb"}),
            r#"argument `pattern` of search is "a\\nb", expected a regular expression for one line"#,
        ),
        (
            "run",
            json!({"command": "true", "timeout": 601}),
            "argument `timeout` of run is 601, expected a whole number from 1 to 600",
        ),
        (
            "run",
            json!({"command": "a\0b"}),
            "argument `command` of run is \"a\\u0000b\", expected a command without NUL bytes",
        ),
        (
            "run",
            json!({"command": "true", "cwd": "a.txt"}),
            "argument `cwd` of run is \"a.txt\", expected a directory",
        ),
    ] {
        let error = place.prepare(tool, arguments.clone()).await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{tool} {arguments}");
    }
    let long = place.prepare("read", json!({"path": ["x".repeat(10_000)]})).await.unwrap_err();
    assert!(long.to_string().len() < 400, "what was sent is shortened");
}

#[tokio::test]
async fn arguments_are_taken_as_models_send_them() {
    let place = Place::new();
    place.write("in/with space.txt", "spaced\n");
    let uri = |name: &str| format!("file://{}", place.path(name).display());
    let spaced = uri("in/with space.txt").replace(' ', "%20");
    for (tool, arguments, expected) in [
        ("read", json!({"path": uri("in/a.txt")}), "     1\tone\n     2\ttwo\n     3\tthree\n"),
        (
            "read",
            json!({"path": uri("in/a.txt").replace("file://", "file://localhost")}),
            "     1\tone\n     2\ttwo\n     3\tthree\n",
        ),
        ("read", json!({"path": spaced}), "     1\tspaced\n"),
        (
            "read",
            json!({"path": "a.txt", "offset": "2", "limit": "1"}),
            "     2\ttwo\n(lines 2 to 2 of 3; go on with offset 3)",
        ),
        (
            "read",
            json!({"path": "a.txt", "offset": 2.0, "limit": " 1 "}),
            "     2\ttwo\n(lines 2 to 2 of 3; go on with offset 3)",
        ),
        ("list", json!({"path": uri("in/deep"), "all": "true"}), "b.txt (5 bytes)\n"),
    ] {
        assert_eq!(place.output(tool, arguments.clone()).await, expected, "{tool} {arguments}");
    }
    let text = place.output("run", json!({"command": "pwd", "cwd": uri("in/deep")})).await;
    assert!(text.starts_with(&place.path("in/deep").display().to_string()), "{text}");
    // A URL of another host, and URLs outside the roots, are rejected.
    for path in ["file://elsewhere/a.txt", "file:///etc/passwd", "file://localhost/etc/passwd"] {
        let text = place.output("read", json!({"path": path})).await;
        assert!(text.starts_with("error: "), "{text}");
    }
    let outside = place.output("read", json!({"path": uri("out/secret.txt")})).await;
    assert!(outside.contains("outside") && !outside.contains("secret\n"), "{outside}");
}
