//! The process group of one command, where there is no guardian: its signals, its leader's exit, its end. What has
//! left the group is not found.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::exit::Exit;
use super::group::{Leftover, ROUND, TERM_WAIT, Words};

/// How long SIGKILL is repeated for what is forked meanwhile.
const KILL_WAIT: Duration = Duration::from_millis(400);
/// Waits for a line, and at the end of its input without one kills the group that it was started with.
const WATCHER: &str = r#"trap '' HUP INT TERM; read -r line || kill -s KILL -- "-$0""#;

/// A command and whatever it has started in its group. A small watcher kills the group when we are gone,
/// however we went, and also when this is dropped before its time.
pub(super) struct Bare {
    /// Not collected before the group is ended: as long as it is there, nobody else can get its number.
    leader: Child,
    watcher: tokio::process::ChildStdin,
    children: Signal,
}

impl Bare {
    /// Starts a program as the leader of a group of its own.
    pub(super) fn start(
        words: Words<'_>,
        dress: impl Fn(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        // Before the program: its end must not be missed.
        let children = signal(SignalKind::child())?;
        let mut command = Command::new(words.program);
        command.args(words.args).process_group(0);
        dress(&mut command)?;
        // Our copies of its streams go with the command: the end of its output must be seen here.
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
        // The handle itself is not needed: the runtime collects it when it has ended.
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

    /// The leader stays there to be collected.
    pub(super) fn exited(&self) -> Option<Exit> {
        // SAFETY: all zeroes is a valid siginfo.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid for the call, and the process is a child of ours that nobody else collects.
        let asked = unsafe { libc::waitid(libc::P_PID, self.leader.id(), &mut info, flags) };
        // SAFETY: the call has filled in what these read, or left zeroes.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if asked < 0 || pid == 0 {
            return None;
        }
        let raw = match info.si_code {
            libc::CLD_EXITED => (status & 0xff) << 8,
            _ => status & 0x7f,
        };
        Some(Exit::of(ExitStatus::from_raw(raw)))
    }

    pub(super) async fn stirred(&mut self) {
        self.children.recv().await;
    }

    pub(super) async fn clear(mut self) -> Leftover {
        let leftover = left(self.leader.id());
        self.signal(libc::SIGTERM);
        // A leader that is not collected would count as one that is left.
        let group = self.leader.id();
        let _ = self.leader.try_wait();
        let begun = Instant::now();
        while is_alive(group) && begun.elapsed() < TERM_WAIT + KILL_WAIT {
            if begun.elapsed() >= TERM_WAIT {
                send(group, libc::SIGKILL);
            }
            tokio::time::sleep(ROUND).await;
        }
        // A leader that had to be asked has ended only now.
        let _ = self.leader.try_wait();
        if !is_alive(group) {
            let _ = self.watcher.write_all(b"done\n").await;
        }
        leftover
    }
}

/// Sends a signal to a group; says whether there was anybody.
fn send(group: u32, signal: libc::c_int) -> bool {
    let Ok(group) = libc::pid_t::try_from(group) else { return false };
    // SAFETY: a plain call, for a group that we made.
    unsafe { libc::kill(-group, signal) == 0 }
}

/// Says whether a group has a member that runs.
pub(crate) fn is_alive(group: u32) -> bool {
    send(group, 0) && !all_ended(group)
}

/// Whether anybody runs in a group whose leader is not collected. Only Linux can tell that leader apart.
fn left(group: u32) -> Leftover {
    if cfg!(target_os = "linux") && !all_ended(group) { Leftover::Somebody } else { Leftover::Nobody }
}

/// Orphans that nobody collects, as in a container without an init, are members and do not run.
#[cfg(target_os = "linux")]
fn all_ended(group: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let runs = |stat: &str| {
        // The name before it may hold anything, `)` too.
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
