//! Runs a program on a pseudo-terminal: types keys, and reads what it writes, as text and as a screen.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rethread_testkit::DEADLINE;
use tokio::process::Command;

/// The keys that a terminal turns into an interrupt and an end of input.
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";

/// A command whose controlling terminal is ours, killed when this is dropped.
pub(crate) struct OnTerminal {
    child: Child,
    keyboard: File,
    said: String,
    /// How much of what it wrote was searched for questions about the cursor.
    searched: usize,
    screen: vt100::Parser,
}

/// What a program writes to learn where the cursor is.
const CURSOR_QUESTION: &str = "\x1b[6n";

impl OnTerminal {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_sized(command, 24, 80)
    }

    /// Starts it on a terminal of this size.
    pub(crate) fn start_sized(command: Command, rows: u16, columns: u16) -> Self {
        let (ours, theirs) = terminal();
        set_size(&theirs, rows, columns);
        let mut command = command.into_std();
        let end = || theirs.try_clone().expect("a descriptor is free");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: all calls are async-signal-safe and nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                // Tests that run in the background may have inherited a signal that is ignored; a terminal has none.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("it starts");
        let size = |length| NonZeroU16::new(length).expect("a terminal has a size");
        let screen = vt100::Parser::new(size(rows), size(columns), 1000);
        Self { child, keyboard: ours.into(), said: String::new(), searched: 0, screen }
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes it");
    }

    /// Waits until it has written this.
    pub(crate) fn shows(&mut self, words: &str) {
        let until = Instant::now() + 4 * DEADLINE;
        while !self.said.contains(words) {
            assert!(self.reads_on(until), "no {words:?} on the screen: {}", self.said);
        }
    }

    /// Waits until the screen has this, and returns its text.
    pub(crate) fn screen_with(&mut self, words: &str) -> String {
        let until = Instant::now() + 4 * DEADLINE;
        while !self.screen().contains(words) {
            assert!(self.reads_on(until), "no {words:?} on the screen:\n{}", self.screen());
        }
        self.screen()
    }

    /// Waits until the screen has these words and ends with a prompt.
    pub(crate) fn prompt_after(&mut self, words: &str, prompt: &str) -> String {
        let until = Instant::now() + 4 * DEADLINE;
        let is_ready = |screen: &str| screen.contains(words) && screen.trim_end().ends_with(prompt);
        while !is_ready(&self.screen()) {
            assert!(self.reads_on(until), "no prompt after {words:?} on the screen:\n{}", self.screen());
        }
        self.screen()
    }

    /// Waits until the screen no longer has this.
    pub(crate) fn screen_without(&mut self, words: &str) {
        let until = Instant::now() + 4 * DEADLINE;
        while self.screen().contains(words) {
            assert!(self.reads_on(until), "{words:?} stays on the screen:\n{}", self.screen());
        }
    }

    /// The text of the screen, without spaces at the ends of lines.
    pub(crate) fn screen(&self) -> String {
        let text = self.screen.screen().contents();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Waits for the end, and gives all that it wrote.
    pub(crate) fn ends(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + 4 * DEADLINE;
        while self.reads_on(until) {}
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(Instant::now() < until, "it does not end: {}", self.said);
            std::thread::sleep(Duration::from_millis(5));
        };
        (status, std::mem::take(&mut self.said))
    }

    /// Reads what is there by then. Nothing more comes when everybody at the other end is gone.
    fn reads_on(&mut self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let mut ready = libc::pollfd { fd: self.keyboard.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let wait = libc::c_int::try_from(left.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: one descriptor that is open, and the place for what is found.
        if unsafe { libc::poll(&raw mut ready, 1, wait) } <= 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        match self.keyboard.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.said.push_str(&String::from_utf8_lossy(&bytes[..read]));
                self.screen.process(&bytes[..read]);
                self.tell_cursor();
                true
            }
        }
    }
}

impl OnTerminal {
    /// Changes the size of the terminal, and tells the program.
    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        set_size(&self.keyboard, rows, columns);
        let size = |length| NonZeroU16::new(length).expect("a terminal has a size");
        self.screen.screen_mut().set_size(size(rows), size(columns));
    }

    /// The text of the screen and of all lines above it.
    pub(crate) fn scrollback(&mut self) -> String {
        let screen = self.screen.screen_mut();
        screen.set_scrollback(usize::MAX);
        let above = screen.scrollback();
        let mut lines: Vec<String> = Vec::new();
        for at in (1..=above).rev() {
            screen.set_scrollback(at);
            lines.extend(screen.contents().lines().next().map(str::to_owned));
        }
        screen.set_scrollback(0);
        lines.push(screen.contents());
        lines.join("\n")
    }

    /// All that it has written.
    pub(crate) fn written(&self) -> &str {
        &self.said
    }

    /// Answers questions about the cursor, as terminals do.
    fn tell_cursor(&mut self) {
        while let Some(at) = self.said[self.searched..].find(CURSOR_QUESTION) {
            self.searched += at + CURSOR_QUESTION.len();
            let (row, column) = self.screen.screen().cursor_position();
            self.types(&format!("\x1b[{};{}R", row + 1, column + 1));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A terminal: our end and that of the programs on it.
fn terminal() -> (OwnedFd, OwnedFd) {
    // Not `openpty`: its descriptors would be inherited by the programs that other tests start at the same moment.
    let open = |path: &Path| {
        let file = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(path);
        file.expect("a terminal can be opened")
    };
    let ours = open(Path::new("/dev/ptmx"));
    // SAFETY: plain calls on a descriptor that is open.
    let made = unsafe { libc::grantpt(ours.as_raw_fd()) == 0 && libc::unlockpt(ours.as_raw_fd()) == 0 };
    assert!(made, "{}", std::io::Error::last_os_error());
    let theirs = open(&other_end(&ours));
    (ours.into(), theirs.into())
}

fn set_size(terminal: &impl AsRawFd, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open and the struct is valid for the call.
    let set = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// The path of the end of a terminal that programs run on.
fn other_end(ours: &File) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().expect("nobody panics with it");
    // SAFETY: the text stays until the next call, which waits for the lock.
    let name = unsafe { libc::ptsname(ours.as_raw_fd()) };
    assert!(!name.is_null(), "{}", std::io::Error::last_os_error());
    // SAFETY: as above, and it ends with a zero byte.
    PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().expect("a path of plain letters"))
}
