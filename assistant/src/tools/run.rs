//! The tool `run`: runs a command line and streams its output. All its processes are ended when it exits, is cancelled,
//! reaches its time limit or is dropped.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rethread::command::{self, CommandEvent, CommandSpec, Leftover, RunningCommand};
use tokio::time::{sleep, timeout};

use super::arguments::Arguments;
use super::error::ToolError;
use super::excerpt::{self, HeadAndTail};
use super::prepared::{Action, CallEnd, CommandLine, Exit, PreparedCall, Sink, ToolOutcome};
use super::shell::{Shell, shell};
use super::spec::{Effect, Kind, ToolSpec, number, object, text};
use super::workspace::{Target, Workspace};

pub(super) const NAME: &str = "run";

/// The default time limit, in seconds.
const USUAL_TIME: u64 = 120;
/// The maximum time limit, in seconds.
const LONGEST_TIME: u64 = 600;
/// The maximum lengths of head and tail of the output for the model.
const FOR_MODEL: (usize, usize) = (12 * 1024, 20 * 1024);
/// The maximum lengths of head and tail of the output for users.
const FOR_USERS: (usize, usize) = (512 * 1024, 64 * 1024);
/// How long the end of the output may wait to be received.
const TAIL_LIMIT: Duration = Duration::from_secs(2);
/// The environment that prevents pagers and questions.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0"), ("TERM", "dumb")];

macro_rules! description {
    ($shell:literal) => {
        concat!(
            "Runs a command line with ",
            $shell,
            " (not as a login shell, no startup files of interactive shells) as the user, not in a sandbox. Returns \
             its output (both streams, in order) and its exit code. It has no input, and all processes that it starts \
             end with it: nothing stays in the background. Of long output, the beginning and the end are returned."
        )
    };
}
const DESCRIPTION_BASH: &str = description!("bash");
const DESCRIPTION_STANDARD: &str = description!("/bin/sh");

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME,
        description: match shell() {
            Shell::Bash(_) => DESCRIPTION_BASH,
            Shell::Standard => DESCRIPTION_STANDARD,
        },
        schema: object(
            [
                ("command", text("The command line.")),
                ("cwd", text("The directory to run it in. Default: the working directory.")),
                ("timeout", number(1, LONGEST_TIME, "Seconds after which it is ended. Default: 120.")),
            ],
            &["command"],
        ),
        kind: Kind::Execute,
        effect: Effect::Executes,
    }
}

/// A call of `run`.
#[derive(Debug)]
pub(super) struct RunCall {
    /// The command line and its directory.
    pub(super) command: CommandLine,
    /// The directory as it was sent.
    sent: String,
    time: Duration,
}

pub(super) fn prepare(
    workspace: &Arc<Workspace>,
    arguments: &Arguments<'_>,
) -> Result<PreparedCall, ToolError> {
    let line = arguments.some_text("command")?;
    if line.contains('\0') {
        return Err(arguments.wrong("command", "a command without NUL bytes", None));
    }
    let sent = arguments.optional_text("cwd")?.filter(|path| !path.is_empty()).unwrap_or(".");
    let time = arguments.number("timeout", 1..=LONGEST_TIME)?.unwrap_or(USUAL_TIME);
    let cwd = match workspace.target(sent)? {
        Target::Directory(at) => at.shown,
        Target::File(_) => return Err(arguments.wrong("cwd", "a directory", None)),
    };
    let title = format!("Run {}", line.trim());
    let command = CommandLine { line: line.to_owned(), cwd: cwd.clone() };
    let plan = Action::Run(RunCall { command, sent: sent.to_owned(), time: Duration::from_secs(time) });
    Ok(PreparedCall::new(workspace, Kind::Execute, title, plan).at(cwd, None))
}

/// Runs the command until it exits, is cancelled or reaches its time limit.
pub(super) async fn run(
    line: RunCall,
    workspace: Arc<Workspace>,
    sink: Sink,
    cancelled: impl Future<Output = ()> + Send,
) -> Result<ToolOutcome, ToolError> {
    let begun = Instant::now();
    let mut running = start(&line, workspace).await?;
    let mut output = CommandOutput::new(sink);
    let mut end = CallEnd::Done;
    let late = sleep(line.time);
    tokio::pin!(cancelled, late);
    let exit = loop {
        tokio::select! {
            event = running.next(), if output.has_room() || end != CallEnd::Done => match event {
                CommandEvent::Output(bytes) => output.take(bytes),
                CommandEvent::Exited(exit) => break exit,
            },
            () = output.hand_on() => {}
            () = &mut cancelled, if end == CallEnd::Done => {
                end = CallEnd::Cancelled;
                running.end();
            }
            () = &mut late, if end == CallEnd::Done => {
                end = CallEnd::TimedOut;
                running.end();
            }
        }
    };
    let leftover = running.clear().await;
    output.finish().await;
    Ok(outcome(&line, &output, exit, end, leftover, begun.elapsed()))
}

async fn start(line: &RunCall, workspace: Arc<Workspace>) -> Result<RunningCommand, ToolError> {
    let launch = CommandSpec {
        command: shell().path().to_owned(),
        args: vec!["-c".to_owned(), line.command.line.clone()],
        environment: workspace.environment.clone(),
        env: ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        without: workspace.hidden.clone(),
        cwd: line.command.cwd.to_string_lossy().into_owned(),
        guardian: workspace.guardian.clone(),
    };
    let sent = line.sent.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let path = workspace.absolute(&sent);
        workspace.roots.directory(Path::new(&path)).map_err(|error| workspace.error(&sent, error))
    });
    let directory = opened.await.unwrap_or(Err(ToolError::GivenUp))?;
    RunningCommand::start(&launch, &directory).await.map_err(ToolError::NotStarted)
}

/// The output of a command, for the model and for users.
struct CommandOutput {
    model: HeadAndTail,
    users: HeadAndTail,
    sink: Sink,
    /// The bytes that are sent to users next.
    next: Vec<u8>,
}

impl CommandOutput {
    fn new(sink: Sink) -> Self {
        let model = HeadAndTail::new(FOR_MODEL.0, FOR_MODEL.1);
        let users = HeadAndTail::new(FOR_USERS.0, FOR_USERS.1);
        Self { model, users, sink, next: Vec::new() }
    }

    /// Whether the output so far was sent; otherwise the command waits.
    fn has_room(&self) -> bool {
        self.next.is_empty()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.model.push(bytes);
        let was_over = self.users.is_over();
        let beginning = self.users.push(bytes);
        let is_cut = self.users.is_over() && !was_over;
        self.next.extend_from_slice(if is_cut { excerpt::whole(beginning) } else { beginning });
        if is_cut {
            self.next
                .extend_from_slice(b"\r\n[more output follows: its end is shown when the command ends]\r\n");
        }
    }

    /// Sends the next bytes when the channel has room; never returns if there are none.
    async fn hand_on(&mut self) {
        if self.next.is_empty() {
            return std::future::pending().await;
        }
        match self.sink.reserve().await {
            Ok(room) => room.send(std::mem::take(&mut self.next)),
            // The receiver is gone.
            Err(_) => self.next.clear(),
        }
    }

    /// Sends the tail.
    async fn finish(&mut self) {
        if self.users.left_out() > 0 {
            let note = format!("\r\n[{} bytes are left out here]\r\n", self.users.left_out());
            self.next.extend_from_slice(note.as_bytes());
        }
        let tail = self.users.tail();
        self.next.extend_from_slice(&tail);
        if !self.next.is_empty() {
            let _ = timeout(TAIL_LIMIT, self.hand_on()).await;
        }
    }
}

fn outcome(
    line: &RunCall,
    output: &CommandOutput,
    exit: command::CommandExit,
    end: CallEnd,
    leftover: Leftover,
    took: Duration,
) -> ToolOutcome {
    let exit = Exit { code: exit.code(), signal: exit.signal() };
    let how = match (&exit.code, &exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let mut notes = match end {
        CallEnd::Done => vec![how],
        CallEnd::TimedOut => vec![format!("stopped at its time limit of {} s", line.time.as_secs()), how],
        CallEnd::Cancelled => vec!["cancelled".to_owned(), how],
    };
    notes.push(format!("{:.1} s", took.as_secs_f64()));
    if end == CallEnd::Done && leftover == Leftover::Processes {
        notes.push("background processes that it left were ended".to_owned());
    }
    let mut text = output.model.text();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("({})", notes.join(", ")));
    ToolOutcome { exit: Some(exit), end, ..ToolOutcome::of_text(text) }
}
