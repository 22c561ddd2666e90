//! The guardian: a small process between us and one agent, which outlives us just long enough to end the agent
//! and everything the agent started. It does the same for a command and for an MCP server, which are agents here. Blocking and single-threaded on purpose. Owns the order of the ending;
//! which processes belong to the tree is in `tree`, signals are in `signals`.
//!
//! It is tied to us by a pipe of which only we hold the write end. The kernel closes that end however we go,
//! `kill -9` included, and that is the guardian's call to end the tree. One byte on it, [`END`], says the same
//! while we live. What became of the agent goes back over the status pipe, one line per fact.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use self::tree::{Left, Tree};
use super::status::{AgentEnd, StatusLine};

mod signals;
mod tree;

/// The byte on the tie that asks for the end of the agent.
pub const END: u8 = b'q';
/// The byte on the tie that asks every process of the tree to end, by SIGTERM.
pub const ASK: u8 = b't';
/// The byte on the tie that kills every process of the tree.
pub const KILL: u8 = b'k';
/// The word on the command line for [`Afterwards::Stay`].
pub const STAY: &str = "--stay";

/// How long an agent whose input has ended may take to exit by itself.
const GRACE: Duration = Duration::from_millis(700);
/// How long the tree may take after SIGTERM.
const TERM_WAIT: Duration = Duration::from_millis(400);
/// How long SIGKILL is repeated for what is forked meanwhile. All three together stay below 1.6 s.
const KILL_WAIT: Duration = Duration::from_millis(400);
/// The pause between two rounds of SIGKILL.
const KILL_ROUND: Duration = Duration::from_millis(1);

/// The exit codes of a guardian that has no agent's end to mirror, as shells use them.
const EXIT_UNUSABLE: i32 = 125;
const EXIT_NOT_STARTED: i32 = 127;
const EXIT_SIGNAL_BASE: i32 = 128;

/// What becomes of processes that an agent leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// They are ended as soon as the agent has ended.
    End,
    /// They stay until the tie asks for the end. Who asks then has waited long enough: no time is given.
    Stay,
}

/// What a guardian is started with. Its standard streams are those of the agent.
#[derive(Debug)]
pub struct Guard {
    /// The inherited read end of the tie.
    pub tie: RawFd,
    /// The inherited write end of the status pipe.
    pub status: RawFd,
    /// What becomes of processes that the agent leaves behind.
    pub afterwards: Afterwards,
    /// The agent's program, looked up in the search path if it has no slash.
    pub program: OsString,
    /// The agent's arguments.
    pub args: Vec<OsString>,
}

/// Starts the agent, waits for its end or ours, and returns when the whole tree is gone.
///
/// The result is the exit code for this process: the agent's own, or 128 and the signal that killed it. To be
/// called by a process that has no other threads and that exits afterwards.
pub fn run(guard: Guard) -> i32 {
    match Watch::start(guard) {
        Ok(mut watch) => watch.until_gone(),
        Err(NoWatch::Unusable(error)) => {
            // Still on the agent's stderr, which our parent shows with the failure.
            let _ = writeln!(io::stderr(), "error: the guardian failed: {error}");
            EXIT_UNUSABLE
        }
        Err(NoWatch::NotStarted) => EXIT_NOT_STARTED,
    }
}

/// Why there is nothing to watch.
enum NoWatch {
    Unusable(io::Error),
    NotStarted,
}

impl From<io::Error> for NoWatch {
    fn from(error: io::Error) -> NoWatch {
        NoWatch::Unusable(error)
    }
}

/// A running agent and the pipes to the one who wants it.
struct Watch {
    /// `None` once it has been closed or has asked for the end: there is nothing more to hear.
    tie: Option<File>,
    status: File,
    children: File,
    tree: Tree,
    afterwards: Afterwards,
    end: Option<AgentEnd>,
}

impl Watch {
    fn start(guard: Guard) -> Result<Watch, NoWatch> {
        let tie = File::from(inherited(guard.tie)?);
        let mut status = File::from(inherited(guard.status)?);
        signals::ignore_requests_to_end()?;
        let children = signals::notice_children()?;
        tree::adopt_orphans()?;
        let agent = match start_agent(&guard.program, &guard.args) {
            Ok(agent) => agent,
            Err(error) => {
                report(&mut status, StatusLine::Failed(error.raw_os_error().unwrap_or(libc::EINVAL)));
                return Err(NoWatch::NotStarted);
            }
        };
        report(&mut status, StatusLine::Started(agent));
        let (tree, afterwards) = (Tree::of(agent), guard.afterwards);
        let mut watch = Watch { tie: Some(tie), status, children, tree, afterwards, end: None };
        if let Err(error) = let_go_of_streams() {
            watch.clear_tree();
            return Err(error.into());
        }
        Ok(watch)
    }

    fn until_gone(&mut self) -> i32 {
        match self.afterwards {
            Afterwards::End => {
                self.wait(None, |watch| watch.end.is_some() || watch.tie.is_none());
                self.wait(Some(GRACE), |watch| watch.end.is_some());
            }
            Afterwards::Stay => self.wait(None, |watch| watch.tie.is_none()),
        }
        if self.end.is_some() && self.tree.left == Left::Something {
            report(&mut self.status, StatusLine::Left(self.tree.agent()));
        }
        self.clear_tree();
        match self.end {
            Some(AgentEnd::Exited(code)) => code,
            Some(AgentEnd::Killed(signal)) => EXIT_SIGNAL_BASE + signal,
            Some(AgentEnd::Unseen) | None => EXIT_UNUSABLE,
        }
    }

    /// Ends whatever is left: first asked by SIGTERM, then killed, again and again while something forks.
    fn clear_tree(&mut self) {
        if self.reap() == Left::Nothing {
            return;
        }
        self.tree.signal(libc::SIGTERM);
        self.wait(Some(TERM_WAIT), |watch| watch.tree.left == Left::Nothing);
        let give_up = Instant::now() + KILL_WAIT;
        while self.reap() == Left::Something && Instant::now() < give_up {
            self.tree.signal(libc::SIGKILL);
            self.wait(Some(KILL_ROUND), |watch| watch.tree.left == Left::Nothing);
        }
    }

    /// Waits until `done`, which is asked after every event, or until the time is over.
    fn wait(&mut self, limit: Option<Duration>, done: impl Fn(&Watch) -> bool) {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            self.reap();
            if done(self) {
                return;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return;
            }
            self.poll(left);
        }
    }

    /// Sleeps until a child ends, the tie speaks or closes, or the time is over.
    fn poll(&mut self, limit: Option<Duration>) {
        // Poll leaves out negative descriptors.
        let tie = self.tie.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut fds = [readable(self.children.as_raw_fd()), readable(tie)];
        // Rounded up: a wait that ends too early would turn into a busy loop.
        let millis = limit.map_or(-1, |limit| limit.as_millis() as libc::c_int + 1);
        // SAFETY: `fds` is a valid array of its length for the whole call.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
        if fds[0].revents != 0 {
            // Non-blocking; what it says is only that something happened, and `reap` looks for itself.
            let _ = self.children.read(&mut [0; 64]);
        }
        if fds[1].revents != 0 {
            self.hear_tie();
        }
    }

    fn hear_tie(&mut self) {
        let mut bytes = [0; 16];
        match self.tie.as_mut().map(|tie| tie.read(&mut bytes)) {
            Some(Ok(count)) if count > 0 && !bytes[..count].contains(&END) => self.obey(&bytes[..count]),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Some(Ok(_) | Err(_)) | None => self.tie = None,
        }
    }

    fn obey(&self, bytes: &[u8]) {
        for byte in bytes {
            match *byte {
                ASK => self.tree.signal(libc::SIGTERM),
                KILL => self.tree.signal(libc::SIGKILL),
                _ => {}
            }
        }
    }

    /// Collects ended children and reports the agent's end as soon as it is known.
    fn reap(&mut self) -> Left {
        if let Some(status) = self.tree.reap() {
            let end = AgentEnd::of(status);
            self.end = Some(end);
            match end {
                AgentEnd::Exited(code) => report(&mut self.status, StatusLine::Exited(code)),
                AgentEnd::Killed(signal) => report(&mut self.status, StatusLine::Killed(signal)),
                AgentEnd::Unseen => {}
            }
        }
        self.tree.left
    }
}

/// Starts the agent in a session of its own, so that no terminal and no signal for our group reaches it.
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

/// Takes an inherited descriptor, which the agent shall not inherit in turn.
fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd <= libc::STDERR_FILENO {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("descriptor {fd} is a standard stream"),
        ));
    }
    // SAFETY: plain call on a number; an unused one is refused by the kernel.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as just seen, and our parent opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets go of the agent's streams: the end of its input must reach it, the end of its output must reach us.
fn let_go_of_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: both are open descriptors; the standard streams are owned by nobody.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Writes a line. Whoever does not read it any more is gone, and the tie says so.
fn report(status: &mut File, line: StatusLine) {
    let _ = status.write_all(format!("{line}\n").as_bytes());
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}
