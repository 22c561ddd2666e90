//! `rethread config`: where the configuration is, what it says, editing it, and what is wrong with it.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::changes::{JsonOption, ReportForm};
use crate::config::{self, Problem, Severity, as_json, as_toml, check, with_environment};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::{visible, visible_lines};
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::output::target::{OutputTarget, Paint};
use crate::paths::Paths;
use crate::picker;

/// What a new file contains.
const TEMPLATE: &str = include_str!("config/template.toml");

/// Options of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Prints the path of the file.
    Path(JsonOption),
    /// Prints all that is in effect, also from the environment. Secrets are never shown.
    Show(JsonOption),
    /// Opens the file in $VISUAL or $EDITOR, and checks it afterwards.
    Edit,
    /// Reports what is wrong with the file; ends with 1 if it cannot be used.
    Check(JsonOption),
}

/// Runs a part of `config`.
pub(crate) fn run(args: &ConfigArgs) -> Result<(), Failure> {
    let file = Paths::from_environment()?.config();
    match &args.action {
        ConfigAction::Path(json) => path(&file, json.form()),
        ConfigAction::Show(json) => show(&file, json.form()),
        ConfigAction::Edit => edit(&file),
        ConfigAction::Check(json) => report_check(&file, json.form()),
    }
}

fn path(file: &Path, form: ReportForm) -> Result<(), Failure> {
    match form {
        ReportForm::Text => print(&format!("{}\n", file.display())),
        ReportForm::Json => print(&json_document(&json!({"path": file, "exists": file.exists()}))),
    }
}

fn show(file: &Path, form: ReportForm) -> Result<(), Failure> {
    let config = config::read(file)?;
    let in_file: Vec<String> = config.providers.iter().map(|provider| provider.name.clone()).collect();
    let providers = with_environment(config.providers.clone());
    if form == ReportForm::Json {
        let document = json!({"path": file, "exists": file.exists(), "config": as_json(&config, &providers)});
        return print(&json_document(&document));
    }
    let (written, added): (Vec<_>, Vec<_>) =
        providers.into_iter().partition(|provider| in_file.contains(&provider.name));
    let target = OutputTarget::stdout();
    let heading = |text: &str| target.paint(Paint::Dim, &format!("# {}\n", visible(text)));
    let missing = if file.exists() { "" } else { " (does not exist)" };
    let mut text = heading(&format!("{}{missing}", file.display()));
    text += &visible_lines(&as_toml(&config, &written));
    if !added.is_empty() {
        text += &format!("\n{}", heading("from the environment"));
        text += &visible_lines(&as_toml(&config::ConfigFile::default(), &added));
    }
    print(&text)
}

fn report_check(file: &Path, form: ReportForm) -> Result<(), Failure> {
    let (config, problems) = check(file);
    let valid = config.is_some();
    match form {
        ReportForm::Json => {
            let document =
                json!({"path": file, "exists": file.exists(), "valid": valid, "problems": problems});
            print(&json_document(&document))?;
        }
        ReportForm::Text => print(&check_text(file, config.as_ref(), &problems))?,
    }
    if valid { Ok(()) } else { Err(Failure::new(ExitCode::Error, "")) }
}

fn check_text(file: &Path, config: Option<&config::ConfigFile>, problems: &[Problem]) -> String {
    let target = OutputTarget::stdout();
    let mut text = String::new();
    for problem in problems {
        let (paint, word) = match problem.severity {
            Severity::Error => (Paint::Red, "error"),
            Severity::Warning => (Paint::Yellow, "warning"),
        };
        let place =
            problem.line.map_or_else(String::new, |line| format!("{}, line {line}: ", file.display()));
        text += &format!("{}: {}\n", target.paint(paint, word), visible(&(place + &problem.message)));
        if let Some(hint) = &problem.hint {
            text += &format!("hint: {}\n", visible(hint));
        }
    }
    let Some(config) = config else { return text };
    let summary = if file.exists() {
        let count = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let counted = [
            count(config.agents.len(), "agent"),
            count(config.providers.len(), "provider"),
            count(config.assistant.servers.len(), "MCP server"),
        ];
        format!("{} is valid: {}.\n", file.display(), counted.join(", "))
    } else {
        format!("{} does not exist; `rethread config edit` makes one.\n", file.display())
    };
    text + &visible_lines(&summary)
}

/// Lets the user edit the file until it is valid or they want no more.
fn edit(file: &Path) -> Result<(), Failure> {
    create(file)?;
    loop {
        open_editor(file)?;
        let (config, problems) = check(file);
        print(&check_text(file, config.as_ref(), &problems))?;
        if config.is_some() {
            return Ok(());
        }
        if !picker::is_possible() || picker::confirm("Edit it again?").is_err() {
            return Err(Failure::new(ExitCode::Error, ""));
        }
    }
}

/// Creates the file with comments that explain it, readable only by the user.
fn create(file: &Path) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::plain(&format!("creating {} failed: {error}", file.display()));
    if let Some(folder) = file.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(mut made) => made.write_all(TEMPLATE.as_bytes()).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Runs the editor of the environment by the shell, since it may have arguments.
fn open_editor(file: &Path) -> Result<(), Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let status = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file).status()?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::plain(&format!("the editor `{editor}` failed: {status}"))
        .hint("set VISUAL or EDITOR to the command of your editor"))
}
