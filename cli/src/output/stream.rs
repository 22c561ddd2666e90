//! Where a command prints: stdout, or a pager if stdout is a terminal. A reader that has gone ends the command silently.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::target::OutputTarget;
use crate::failure::Failure;

/// The options of `less`: leave at once if the text fits on the screen, show colours, leave the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// Where a command prints.
pub(crate) enum OutputStream {
    /// Stdout.
    Stdout(BufWriter<StdoutLock<'static>>),
    /// A pager.
    Pager(Pager),
}

impl OutputStream {
    /// Prints to stdout.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(BufWriter::new(io::stdout().lock()))
    }

    /// Prints to the user's pager if stdout is a terminal, otherwise to stdout.
    pub(crate) fn paged() -> Self {
        match OutputTarget::stdout() {
            OutputTarget::Terminal { .. } => Pager::start().map_or_else(Self::stdout, Self::Pager),
            OutputTarget::Plain => Self::stdout(),
        }
    }

    /// Prints a text that has been escaped.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        let written = match self {
            Self::Stdout(stdout) => stdout.write_all(text.as_bytes()),
            Self::Pager(pager) => pager.write(text),
        };
        written.map_err(unwritten)
    }

    /// Prints what is buffered, and waits until the user leaves the pager.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let written = match &mut self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Pager(pager) => pager.finish(),
        };
        written.map_err(unwritten)
    }
}

/// Prints a text that has been escaped to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stream = OutputStream::stdout();
    stream.print(text)?;
    stream.finish()
}

fn unwritten(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::output_closed();
    }
    Failure::plain(&format!("writing the output failed: {error}"))
}

/// A pager that shows what is written to it. Waits for it on drop.
pub(crate) struct Pager {
    child: Child,
    /// Empty when all is written.
    stdin: Option<BufWriter<ChildStdin>>,
    /// What Ctrl-C did before.
    interrupt: libc::sighandler_t,
}

impl Pager {
    /// Starts the pager of the environment, or `less`; nothing if the user wants none or there is none.
    fn start() -> Option<Self> {
        let mut command = match std::env::var("PAGER") {
            Ok(pager) if matches!(pager.trim(), "" | "cat") => return None,
            Ok(pager) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &pager]);
                shell
            }
            Err(_) => Command::new("less"),
        };
        for (name, value) in [("LESS", LESS_OPTIONS), ("LESSCHARSET", "utf-8")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        let stdin = child.stdin.take().map(BufWriter::new);
        // SAFETY: a plain call. Ctrl-C is for the pager: this process must not leave the terminal before it.
        let interrupt = unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        Some(Self { child, stdin, interrupt })
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.stdin.as_mut().map_or(Ok(()), |stdin| stdin.write_all(text.as_bytes()))
    }

    fn finish(&mut self) -> io::Result<()> {
        let written = self.stdin.take().map_or(Ok(()), |mut stdin| stdin.flush());
        self.child.wait()?;
        // SAFETY: a plain call with a value that the system returned.
        unsafe { libc::signal(libc::SIGINT, self.interrupt) };
        written
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // The command has failed already.
        let _ = self.finish();
    }
}
