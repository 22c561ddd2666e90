//! What is around the store: the configuration, the agents that have a name, the models of the assistant, logs, limits and
//! disk space. Starts nothing and asks nobody.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use super::{Area, Finding, Level};
use crate::commands::agents::{AgentOrigin, find_agents};
use crate::commands::models::{KeyState, key_state};
use crate::config::{ConfigFile, Problem, Severity, check, with_environment};
use crate::output::size::size;
use crate::paths::Paths;

/// The free space that a warning is about.
const LITTLE_SPACE: u64 = 200_000_000;

/// The number of open files that a server with many sessions needs.
const FEW_FILES: u64 = 1024;

/// The configuration file, and what is said of it.
pub(crate) fn configuration(paths: &Paths) -> (ConfigFile, Vec<Finding>, Value) {
    let file = paths.config();
    let (config, problems) = check(&file);
    let finding = |problem: &Problem| {
        let level = match problem.severity {
            Severity::Error => Level::Broken,
            Severity::Warning => Level::Warning,
        };
        let place =
            problem.line.map_or_else(String::new, |line| format!("{}, line {line}: ", file.display()));
        let finding = Finding::new(Area::Configuration, level, place + &problem.message);
        let hint = problem.hint.clone().or_else(|| Some("run `rethread config edit`".to_owned()));
        Finding { hint, ..finding }
    };
    let mut findings: Vec<_> = problems.iter().map(finding).collect();
    let document = json!({"path": file, "exists": file.exists(), "valid": config.is_some()});
    if config.is_some() {
        let state = if file.exists() { "" } else { " does not exist; the defaults are used" };
        let level = Level::Ok;
        findings.insert(0, Finding::new(Area::Configuration, level, format!("{}{state}", file.display())));
    }
    (config.unwrap_or_default(), findings, document)
}

/// The agents that can be used by name.
pub(crate) fn agents(config: &ConfigFile) -> (Vec<Finding>, Value) {
    let list = find_agents(config);
    let installed =
        list.agents.iter().filter(|agent| agent.installed && agent.source != AgentOrigin::BuiltIn);
    let found = installed.map(|agent| {
        let place = agent.program.as_ref().map_or_else(String::new, |path| format!(" at {}", path.display()));
        Finding::new(Area::Agents, Level::Ok, format!("{}{place}", agent.name))
    });
    let mut findings: Vec<_> = found.collect();
    if findings.is_empty() {
        let none =
            Finding::new(Area::Agents, Level::Note, "no agent is installed; the built-in assistant is there");
        findings.push(none.hint("`rethread agents --all` shows how to install one"));
    }
    let document: Vec<Value> = list
        .agents
        .iter()
        .filter(|agent| agent.installed || agent.source == AgentOrigin::Configured)
        .map(|agent| json!({"name": agent.name, "installed": agent.installed, "program": agent.program}))
        .collect();
    (findings, document.into())
}

/// The model providers of the assistant, and whether they have their keys. Never a key.
pub(crate) fn models(config: &ConfigFile) -> (Vec<Finding>, Value) {
    let providers = with_environment(config.providers.clone());
    let finding = |provider: &rethread_assistant::model::ProviderConfig| {
        let name = &provider.name;
        match key_state(provider) {
            KeyState::Present => Finding::new(Area::Models, Level::Ok, format!("{name}: key present")),
            KeyState::Unset => Finding::new(Area::Models, Level::Ok, format!("{name}: no key")),
            KeyState::Missing => {
                Finding::new(Area::Models, Level::Warning, format!("{name}: its key is missing"))
                    .hint(format!("set {}", provider.key_place()))
            }
        }
    };
    let mut findings: Vec<_> = providers.iter().map(finding).collect();
    if findings.is_empty() {
        let none =
            Finding::new(Area::Models, Level::Note, "no model provider is configured for the assistant");
        findings.push(none.hint("docs/models.md says how to configure one"));
    }
    let document = providers.iter().map(|provider| {
        json!({"provider": provider.name, "key": key_state(provider), "keyPlace": provider.key_place()})
    });
    (findings, document.collect::<Vec<_>>().into())
}

/// Logs, limits and disk space.
pub(crate) fn system(paths: &Paths) -> (Vec<Finding>, Value) {
    let mut findings = Vec::new();
    let ok = |message: String| Finding::new(Area::System, Level::Ok, message);
    findings.push(ok(format!("rethread {}", env!("CARGO_PKG_VERSION"))));
    let logs = paths.log_folder();
    let bytes = folder_size(&logs);
    findings.push(match &bytes {
        Ok(bytes) => ok(format!("logs in {}, {}", logs.display(), size(*bytes))),
        Err(error) => {
            Finding::new(Area::System, Level::Warning, format!("{} cannot be read: {error}", logs.display()))
                .hint("check who may read it; rethread works without its log")
        }
    });
    let (soft, hard) = file_limits();
    findings.push(match hard < FEW_FILES {
        false => ok(format!("{soft} open files allowed, at most {hard}")),
        true => Finding::new(Area::System, Level::Warning, format!("only {hard} open files are allowed"))
            .hint("raise the hard limit (`ulimit -Hn`) if many sessions are open at a time"),
    });
    let database = paths.store().database;
    let disk = disk_of(&database);
    let free = disk.as_ref().map(|disk| disk.free);
    findings.extend(disk.as_ref().map(disk_finding));
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"), "logs": logs, "logBytes": bytes.ok(), "openFiles": soft, "openFilesLimit": hard, "freeBytes": free, "readOnly": disk.map(|disk| disk.read_only),
    });
    (findings, document)
}

/// All files in a folder together; nothing if it does not exist.
fn folder_size(folder: &Path) -> std::io::Result<u64> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let sizes = entries.map(|entry| entry?.metadata().map(|meta| meta.len()));
    sizes.sum()
}

fn file_limits() -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

/// The space on the disk of a file, or of the first folder above it that exists.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
/// The disk of the store.
struct Disk {
    free: u64,
    read_only: bool,
}

fn disk_finding(disk: &Disk) -> Finding {
    let warning = |message: String| Finding::new(Area::System, Level::Warning, message);
    if disk.read_only {
        warning("the disk of the store is read-only".to_owned())
            .hint("mount it writable: stored sessions can be read, but nothing can be added")
    } else if disk.free < LITTLE_SPACE {
        warning(format!("only {} free for the store", size(disk.free)))
            .hint("free disk space: a full disk stops every session")
    } else {
        Finding::new(Area::System, Level::Ok, format!("{} free for the store", size(disk.free)))
    }
}

fn disk_of(file: &Path) -> Option<Disk> {
    let folder = file.ancestors().find(|path| path.exists())?;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a valid `statvfs`.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the struct is valid for the call.
    let known = unsafe { libc::statvfs(path.as_ptr(), &raw mut found) } == 0;
    let free = (found.f_bavail as u64).saturating_mul(found.f_frsize as u64);
    known.then_some(Disk { free, read_only: found.f_flag & libc::ST_RDONLY != 0 })
}
