//! The scripted agent as a program on stdin and stdout, with quirks that only processes have. Every process that it
//! starts writes its id to a file for the test, and ends by itself within a minute.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rethread::transport::stdio;

use super::quirk::{ProcessQuirk, Quirk};
use super::{AgentConfig, End, Login, Offer, ScriptedAgent, Speaks};

/// How long a process stays that does not end: longer than any test waits.
const STAY: Duration = Duration::from_secs(60);
/// How long a slow end takes.
const SLOW_END: Duration = Duration::from_secs(5);
/// Makes the program a process that only waits, with the following name.
const LINGER: &str = "--linger";
/// Makes the program start such a process and exit.
const DAEMONIZE: &str = "--daemonize";
/// The folder for the files with process ids.
const NOTES: &str = "--notes";

/// Makes the program log in on its terminal.
const LOG_IN: &str = "--log-in";
/// The file that is there after a login.
const LOGIN_FILE: &str = "--login-file";

/// Runs the program with these arguments: `--protocol 1|2|both`, `--bare`, `--notes FOLDER`, `--login-file FILE` (a login is
/// required until the file is there; with `--login-to-prompt` only for a prompt), `--options` (all of [`Offer`] but one), `--asks-when-opened`
/// ([`Quirk::AsksWhenOpened`]), `--own-ids` (no other process has the same ids of sessions), `--prompt-log FILE` (each prompt is added to
/// it) and the flags of [`ProcessQuirk`]. Gives its exit status.
///
/// # Errors
/// If stdin or stdout cannot be used, or a process cannot be started.
pub async fn run(words: Vec<String>) -> io::Result<i32> {
    let program = AgentProgram { words };
    if let Some(name) = program.after(LINGER) {
        program.linger(&name)?;
        return Ok(0);
    }
    if program.has(DAEMONIZE) {
        program.start(&[LINGER, "daemon"], ProcessPlacement::OwnSession)?;
        return Ok(0);
    }
    if program.has(LOG_IN) {
        return program.log_in();
    }
    if program.is(ProcessQuirk::Relaunches) {
        return program.relaunch();
    }
    program.serve().await
}

/// The group and session of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProcessPlacement {
    /// The same group.
    SameGroup,
    /// A new session and group.
    OwnSession,
}

struct AgentProgram {
    words: Vec<String>,
}

impl AgentProgram {
    fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    fn is(&self, quirk: ProcessQuirk) -> bool {
        self.has(quirk.flag())
    }

    fn after(&self, flag: &str) -> Option<String> {
        let at = self.words.iter().position(|word| word == flag)?;
        self.words.get(at + 1).cloned()
    }

    /// Starts itself again on the same streams and waits for the exit.
    fn relaunch(&self) -> io::Result<i32> {
        self.note("launcher")?;
        let rest = self.words.iter().filter(|word| *word != ProcessQuirk::Relaunches.flag());
        let status = Command::new(std::env::current_exe()?).args(rest).process_group(0).status()?;
        Ok(status.code().unwrap_or(1))
    }

    async fn serve(&self) -> io::Result<i32> {
        if self.is(ProcessQuirk::Stays) {
            ignore_signals();
        }
        if self.is(ProcessQuirk::LeavesDaemon) {
            self.start(&[DAEMONIZE], ProcessPlacement::SameGroup)?.wait()?;
        }
        if self.is(ProcessQuirk::HasChild) {
            self.start(&[LINGER, "child"], ProcessPlacement::SameGroup)?;
        }
        self.note("agent")?;
        let end = ScriptedAgent::new(self.config()).run(stdio::open()?.into()).await;
        if self.is(ProcessQuirk::Stays) {
            tokio::time::sleep(STAY).await;
        }
        if self.is(ProcessQuirk::EndsSlowly) {
            tokio::time::sleep(SLOW_END).await;
        }
        Ok(match end {
            End::Disconnected => 0,
            End::Crashed => {
                eprintln!("the scripted agent crashes, as it was told to");
                3
            }
        })
    }

    fn config(&self) -> AgentConfig {
        let speaks = match self.after("--protocol").as_deref() {
            Some("1") => Speaks::One,
            Some("2") => Speaks::Two,
            Some(_) | None => Speaks::Both,
        };
        let config = if self.has("--bare") { AgentConfig::bare(speaks) } else { AgentConfig::able(speaks) };
        let login = match self.after(LOGIN_FILE).map(PathBuf::from) {
            Some(file) if !file.exists() && self.has("--login-to-prompt") => Login::OnTerminalToPrompt,
            Some(file) if !file.exists() => Login::OnTerminal,
            Some(_) | None => Login::NotNeeded,
        };
        let asks = self.has("--asks-when-opened").then_some(Quirk::AsksWhenOpened);
        let all = [Offer::Modes, Offer::Models, Offer::Effort, Offer::Verbose];
        let offers = if self.has("--options") { all.to_vec() } else { Vec::new() };
        let id_prefix = match self.has("--own-ids") {
            true => format!("native-{}", rethread::ids::unique()),
            false => config.id_prefix.clone(),
        };
        let prompt_log = self.after("--prompt-log").map(PathBuf::from);
        AgentConfig { login, offers, quirks: asks.into_iter().collect(), id_prefix, prompt_log, ..config }
    }

    /// Asks for a password, which is `open`.
    fn log_in(&self) -> io::Result<i32> {
        io::stdout().write_all(b"Password: ")?;
        io::stdout().flush()?;
        let mut word = String::new();
        io::stdin().read_line(&mut word)?;
        match (word.trim(), self.after(LOGIN_FILE)) {
            ("open", Some(file)) => std::fs::write(file, "").map(|()| 0),
            (_, _) => Ok(1),
        }
    }

    fn linger(&self, name: &str) -> io::Result<()> {
        ignore_signals();
        self.note(name)?;
        std::thread::sleep(STAY);
        Ok(())
    }

    /// Starts itself in another role, without our streams.
    fn start(&self, words: &[&str], place: ProcessPlacement) -> io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(notes) = self.after(NOTES) {
            command.args([OsString::from(NOTES), notes.into()]);
        }
        if place == ProcessPlacement::OwnSession {
            // SAFETY: only an async-signal-safe call is made between fork and exec.
            unsafe {
                command.pre_exec(|| {
                    libc::setsid();
                    Ok(())
                });
            }
        }
        command.spawn()
    }

    /// Writes the id of this process to a file. The file is written under another name and renamed, so that readers see
    /// it whole.
    fn note(&self, name: &str) -> io::Result<()> {
        let Some(folder) = self.after(NOTES).map(PathBuf::from) else { return Ok(()) };
        let aside = folder.join(format!("{name}.new"));
        std::fs::write(&aside, std::process::id().to_string())?;
        std::fs::rename(aside, folder.join(name))
    }
}

fn ignore_signals() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        // SAFETY: a plain call that only changes how this process handles a signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
