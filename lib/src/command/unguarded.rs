//! A command in its own process group, for use without a guardian. Processes that leave the group are not found.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::exit::CommandExit;
use super::group::{Leftover, POLL_INTERVAL, ProgramArgs, TERM_WAIT};

/// How long SIGKILL is repeated for processes that are forked meanwhile.
const KILL_WAIT: Duration = Duration::from_millis(400);
/// Waits for a line; if its input ends without one, kills the process group given as its argument.
const WATCHER: &str = r#"trap '' HUP INT TERM; read -r line || kill -s KILL -- "-$0""#;

/// A command and the processes in its group. A small watcher process kills the group when this process ends in any way,
/// or when this is dropped early.
pub(crate) struct Unguarded {
    /// Not reaped before the group has ended, so that its process id cannot be reused.
    leader: Child,
    watcher: tokio::process::ChildStdin,
    children: Signal,
}

impl Unguarded {
    /// Starts a program as the leader of a new process group.
    pub(super) fn start(
        words: ProgramArgs<'_>,
        configure: impl Fn(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        // Before the program, so that its exit is not missed.
        let children = signal(SignalKind::child())?;
        let mut command = Command::new(words.program);
        command.args(words.args).process_group(0);
        configure(&mut command)?;
        // Drops our copies of its streams with the command, so that the end of its output is seen.
        Self::of(command.spawn()?, children)
    }

    fn of(mut leader: Child, children: Signal) -> io::Result<Self> {
        let group = leader.id().to_string();
        let watcher = tokio::process::Command::new("/bin/sh")
            .args(["-c", WATCHER, &group])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        // The handle is not needed: the runtime reaps the watcher.
        match watcher.and_then(|mut watcher| watcher.stdin.take().ok_or(io::ErrorKind::BrokenPipe.into())) {
            Ok(watcher) => Ok(Self { leader, watcher, children }),
            Err(error) => {
                send(leader.id(), libc::SIGKILL);
                let _ = leader.wait();
                Err(error)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> u32 {
        self.leader.id()
    }

    pub(super) fn signal(&self, signal: libc::c_int) {
        send(self.leader.id(), signal);
    }

    /// Checks for an exit without reaping the leader.
    pub(super) fn exited(&self) -> Option<CommandExit> {
        // SAFETY: all zeroes is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid for the call, and the process is our child, which nothing else reaps.
        let asked = unsafe { libc::waitid(libc::P_PID, self.leader.id(), &mut info, flags) };
        // SAFETY: the call has filled in these fields or left zeroes.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if asked < 0 || pid == 0 {
            return None;
        }
        let raw = match info.si_code {
            libc::CLD_EXITED => (status & 0xff) << 8,
            _ => status & 0x7f,
        };
        Some(CommandExit::of(ExitStatus::from_raw(raw)))
    }

    pub(super) async fn changed(&mut self) {
        self.children.recv().await;
    }

    pub(super) async fn clear(mut self) -> Leftover {
        let leftover = left(self.leader.id());
        self.signal(libc::SIGTERM);
        // An unreaped leader would count as a remaining process.
        let group = self.leader.id();
        let _ = self.leader.try_wait();
        let begun = Instant::now();
        while is_alive(group) && begun.elapsed() < TERM_WAIT + KILL_WAIT {
            if begun.elapsed() >= TERM_WAIT {
                send(group, libc::SIGKILL);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        // A leader that had to be signalled has exited only now.
        let _ = self.leader.try_wait();
        if !is_alive(group) {
            let _ = self.watcher.write_all(b"done\n").await;
        }
        leftover
    }
}

/// Sends a signal to a group; returns whether it has any process.
fn send(group: u32, signal: libc::c_int) -> bool {
    let Ok(group) = libc::pid_t::try_from(group) else { return false };
    // SAFETY: a plain call, for a group that we created.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Returns whether a group has a running process.
pub(crate) fn is_alive(group: u32) -> bool {
    send(group, 0) && !all_ended(group)
}

/// Checks whether processes run in a group whose leader is not reaped. Only Linux can exclude that leader.
fn left(group: u32) -> Leftover {
    if cfg!(target_os = "linux") && !all_ended(group) { Leftover::Processes } else { Leftover::None }
}

/// Zombies that nothing reaps, as in a container without init, are group members but do not run.
#[cfg(target_os = "linux")]
fn all_ended(group: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let runs = |stat: &str| {
        // The name before it may contain anything, including `)`.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let (state, of) = (fields.next()?, fields.nth(1)?);
        Some(of.parse() == Ok(group) && !matches!(state, "Z" | "X"))
    };
    !processes.flatten().any(|process| {
        let stat = std::fs::read(process.path().join("stat")).unwrap_or_default();
        runs(&String::from_utf8_lossy(&stat)).unwrap_or(false)
    })
}

#[cfg(not(target_os = "linux"))]
fn all_ended(_group: u32) -> bool {
    false
}
