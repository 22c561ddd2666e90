//! The guardian: a small process between Rethread and one agent, command or MCP server (all called agent here). It
//! outlives Rethread just long enough to end the agent and everything that the agent started. Blocking and
//! single-threaded on purpose. This file contains the order of ending; `tree` finds the processes, `signals` handles
//! signals.
//!
//! Rethread holds the only write end of the control pipe. The kernel closes it however Rethread ends, including `kill
//! -9`, and the guardian then ends the tree. The byte [`END`] on the pipe requests the same. If the leases of the store
//! expire, the pipe also has signs of life (`heartbeat`), each with a time at which the tree is ended if no other follows: a
//! host that is stopped or cut off must not have agents when another host may take its sessions over. The guardian reports the
//! agent's start and exit on the status pipe, one line each.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rethread_core::lease::Watchdog;

use self::tree::{Remaining, Tree};
use super::heartbeat::{BeatByte, BeatReader};
use super::status::{AgentEnd, StatusLine};
use crate::clock;

mod signals;
mod tree;

/// The control byte that requests the end of the agent.
pub const END: u8 = b'q';
/// The control byte that sends SIGTERM to every process of the tree.
pub const TERMINATE: u8 = b't';
/// The control byte that sends SIGKILL to every process of the tree.
pub const KILL: u8 = b'k';
/// The command line argument for [`OrphanPolicy::Keep`].
pub const STAY: &str = "--stay";

/// How long an agent whose input has ended may take to exit by itself.
const EXIT_WAIT: Duration = Duration::from_millis(700);
/// How long the tree may take after SIGTERM.
const TERM_WAIT: Duration = Duration::from_millis(400);
/// How long SIGKILL is repeated for processes that are forked meanwhile. All three together stay below 1.6 s.
const KILL_WAIT: Duration = Duration::from_millis(400);
const KILL_ROUND: Duration = Duration::from_millis(1);

/// The exit codes of a guardian without an agent's exit code to return, as shells use them.
const EXIT_UNUSABLE: i32 = 125;
const EXIT_NOT_STARTED: i32 = 127;
const EXIT_SIGNAL_BASE: i32 = 128;

/// What happens to processes that an agent leaves running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanPolicy {
    /// They are ended as soon as the agent has exited.
    End,
    /// They go on until the control pipe requests the end, which then kills them at once.
    Keep,
}

/// The arguments of a guardian. Its standard streams are those of the agent.
#[derive(Debug)]
pub struct GuardianArgs {
    /// The inherited read end of the control pipe.
    pub control: RawFd,
    /// The inherited write end of the status pipe.
    pub status: RawFd,
    /// What happens to processes that the agent leaves running.
    pub orphans: OrphanPolicy,
    /// The agent's program, looked up in the search path if it contains no slash.
    pub program: OsString,
    /// The agent's arguments.
    pub args: Vec<OsString>,
}

/// Starts the agent, waits for its exit or ours, and returns when the whole tree has ended.
///
/// Returns the exit code for this process: the agent's own, or 128 plus the signal that killed it. Must be called in a
/// process without other threads, which exits afterwards.
pub fn run(guard: GuardianArgs) -> i32 {
    match GuardianLoop::start(guard) {
        Ok(mut watch) => watch.until_gone(),
        Err(StartError::Unusable(error)) => {
            // This is still the agent's stderr, which our parent shows with the failure.
            let _ = writeln!(io::stderr(), "error: the guardian failed: {error}");
            EXIT_UNUSABLE
        }
        Err(StartError::NotStarted) => EXIT_NOT_STARTED,
    }
}

/// Why the guardian could not start its work.
enum StartError {
    Unusable(io::Error),
    NotStarted,
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Unusable(error)
    }
}

/// A running agent and the pipes to our parent.
struct GuardianLoop {
    /// `None` once it is closed or has requested the end.
    control: Option<File>,
    status: File,
    children: File,
    tree: Tree,
    orphans: OrphanPolicy,
    end: Option<AgentEnd>,
    /// Ends the agent in time, if the leases of the store expire.
    watchdog: Watchdog,
    beats: BeatReader,
}

impl GuardianLoop {
    fn start(guard: GuardianArgs) -> Result<GuardianLoop, StartError> {
        let control = File::from(inherited(guard.control)?);
        let mut status = File::from(inherited(guard.status)?);
        signals::ignore_requests_to_end()?;
        let children = signals::notice_children()?;
        tree::adopt_orphans()?;
        let agent = match start_agent(&guard.program, &guard.args) {
            Ok(agent) => agent,
            Err(error) => {
                report(&mut status, StatusLine::Failed(error.raw_os_error().unwrap_or(libc::EINVAL)));
                return Err(StartError::NotStarted);
            }
        };
        report(&mut status, StatusLine::Started(agent));
        let (tree, orphans) = (Tree::of(agent), guard.orphans);
        let (control, end) = (Some(control), None);
        let (watchdog, beats) = (Watchdog::default(), BeatReader::default());
        let mut watch = GuardianLoop { control, status, children, tree, orphans, end, watchdog, beats };
        if let Err(error) = close_streams() {
            watch.clear_tree();
            return Err(error.into());
        }
        Ok(watch)
    }

    fn until_gone(&mut self) -> i32 {
        match self.orphans {
            OrphanPolicy::End => {
                self.wait(None, |watch| watch.end.is_some() || watch.control.is_none());
                self.wait(Some(EXIT_WAIT), |watch| watch.end.is_some());
            }
            OrphanPolicy::Keep => self.wait(None, |watch| watch.control.is_none()),
        }
        if self.end.is_some() && self.tree.left == Remaining::Some {
            report(&mut self.status, StatusLine::Left(self.tree.agent()));
        }
        self.clear_tree();
        match self.end {
            Some(AgentEnd::Exited(code)) => code,
            Some(AgentEnd::Killed(signal)) => EXIT_SIGNAL_BASE + signal,
            Some(AgentEnd::Unknown) | None => EXIT_UNUSABLE,
        }
    }

    /// Ends the remaining processes, first with SIGTERM, then with SIGKILL as long as something forks.
    fn clear_tree(&mut self) {
        if self.reap() == Remaining::None {
            return;
        }
        self.tree.signal(libc::SIGTERM);
        self.wait(Some(TERM_WAIT), |watch| watch.tree.left == Remaining::None);
        let give_up = Instant::now() + KILL_WAIT;
        while self.reap() == Remaining::Some && Instant::now() < give_up {
            self.tree.signal(libc::SIGKILL);
            self.wait(Some(KILL_ROUND), |watch| watch.tree.left == Remaining::None);
        }
    }

    /// Waits until `done`, which is checked after every event, or until the limit.
    fn wait(&mut self, limit: Option<Duration>, done: impl Fn(&GuardianLoop) -> bool) {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            self.reap();
            self.check_lease();
            if done(self) {
                return;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return;
            }
            // Once the end has begun, the lease has nothing to add.
            let lease = self.control.as_ref().and_then(|_| self.watchdog.left(clock::since_boot()));
            let lease = lease.map(Duration::from_millis);
            self.poll(left.into_iter().chain(lease).min());
        }
    }

    /// Sleeps until a child exits, the control pipe has data or closes, or until the limit.
    fn poll(&mut self, limit: Option<Duration>) {
        // Poll ignores negative descriptors.
        let control = self.control.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut fds = [readable(self.children.as_raw_fd()), readable(control)];
        // Rounded up: a wait that ends too early would become a busy loop.
        let millis = limit.map_or(-1, |limit| limit.as_millis() as libc::c_int + 1);
        // SAFETY: `fds` is a valid array of its length for the whole call.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
        if fds[0].revents != 0 {
            // Non-blocking. The content does not matter; `reap` checks the children.
            let _ = self.children.read(&mut [0; 64]);
        }
        if fds[1].revents != 0 {
            self.read_control();
        }
    }

    fn read_control(&mut self) {
        let mut bytes = [0; 64];
        match self.control.as_mut().map(|control| control.read(&mut bytes)) {
            Some(Ok(count)) if count > 0 => self.handle_bytes(&bytes[..count]),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(Ok(_) | Err(_)) | None => self.control = None,
        }
    }

    fn handle_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let (belongs, limit) = self.beats.read(*byte);
            if let Some(limit) = limit {
                self.watchdog.beat(limit);
            }
            match (belongs, *byte) {
                (BeatByte::Beat, _) => {}
                (BeatByte::Command, END) => self.control = None,
                (BeatByte::Command, TERMINATE) => self.tree.signal(libc::SIGTERM),
                (BeatByte::Command, KILL) => self.tree.signal(libc::SIGKILL),
                (BeatByte::Command, _) => {}
            }
        }
    }

    /// Ends the agent as if that had been requested, if the lease of the host is over.
    fn check_lease(&mut self) {
        if self.watchdog.is_over(clock::since_boot()) {
            self.control = None;
        }
    }

    /// Reaps exited children and reports the agent's exit as soon as it is known.
    fn reap(&mut self) -> Remaining {
        if let Some(status) = self.tree.reap() {
            let end = AgentEnd::of(status);
            self.end = Some(end);
            match end {
                AgentEnd::Exited(code) => report(&mut self.status, StatusLine::Exited(code)),
                AgentEnd::Killed(signal) => report(&mut self.status, StatusLine::Killed(signal)),
                AgentEnd::Unknown => {}
            }
        }
        self.tree.left
    }
}

/// Starts the agent in its own session, so that neither terminals nor signals to our group reach it.
fn start_agent(program: &OsString, args: &[OsString]) -> io::Result<i32> {
    let guardian = std::process::id();
    let mut command = Command::new(program);
    command.args(args);
    // SAFETY: the closure makes only async-signal-safe calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            tree::die_with(guardian)?;
            signals::restore_defaults();
            Ok(())
        });
    }
    // Not waited for through this handle: the tree reaps the agent with all the others.
    let child = command.spawn()?;
    Ok(child.id() as i32)
}

/// Takes an inherited descriptor and keeps the agent from inheriting it.
fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= libc::STDERR_FILENO {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {fd} is a standard stream"),
        ));
    }
    // SAFETY: a plain call on a number; the kernel refuses an unused one.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as just checked, and our parent opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Closes the agent's streams here: the end of its input must reach it, the end of its output must reach our parent.
fn close_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: both descriptors are open; nothing owns the standard streams.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Writes a status line. If this fails, our parent has ended, which the control pipe shows too.
fn report(status: &mut File, line: StatusLine) {
    let _ = status.write_all(format!("{line}\n").as_bytes());
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}
