//! Deviations of real agents from the protocol. Each was seen in the agent that is named, or reported by users. An
//! [`super::AgentConfig`] can have any of them; they are implemented in `serve`, `restore`, `turn` and `program`.
//!
//! Some are script steps instead: `noid` (gemini and qwen send messages without ids), `unannounced` (gemini updates
//! tool calls that it never announced), `long` (qwen sends lines of 570 KB), `print` (shells and banners write to
//! stdout) and `torn` (an agent that is killed while it writes).

/// One quirk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Messages have no ids when they are replayed: gemini and qwen.
    NoIdsOnReplay,
    /// Messages and tool calls have other ids when they are replayed: several agents, with tool calls above all.
    OtherIdsOnReplay,
    /// A session is replayed a moment after the load was answered: reported of several agents.
    ReplaysLate,
    /// A load succeeds and replays nothing, and the agent knows nothing: gemini destroys what it has loaded before.
    ReplaysNothing,
    /// A load, and whatever else has nothing to tell, is answered with `null`: several agents.
    AnswersNull,
    /// The same, but such an answer has no `result` at all: what JavaScript writes of a function that gives nothing.
    AnswersNothing,
    /// It answers with the ids of requests as strings: seen in hand-written agents.
    AnswersWithTextIds,
    /// Each of its sessions has the same id: agents that have only one.
    OneSessionId,
    /// A session that it does not know is an error -32603: codex, opencode and gemini.
    InternalForUnknown,
    /// It dies of any request before it has answered `initialize`: claude and codex refuse such requests.
    InitializeFirst,
    /// A prompt that comes while another runs cancels that: gemini.
    SecondCancelsFirst,
    /// A prompt that comes while another runs makes that fail: qwen.
    SecondFailsFirst,
    /// Before it answers `initialize`, `session/new` and `session/load` it asks the client for something that no
    /// client knows, and does nothing until it is answered: qwen asks for such things.
    AsksTheUnknown,
    /// Its list of sessions ends after 100, and names no cursor: opencode.
    ShortList,
    /// After a cancel it adds a message in the name of the user, and replays it: claude.
    NotesInterruption,
    /// Its answers that tell of modes are lines of 570 KB: qwen has lines of that length.
    LongAnswers,
    /// It never answers the choice of an option.
    MuteOnOptions,
    /// It writes lines that are not JSON to stdout before it answers `initialize`: whatever is started by a shell
    /// that greets.
    Greets,
    /// It repeats a prompt, as a message of the user, before it works on it, in version 1: mistral-vibe.
    RepeatsPrompt,
    /// It makes the beginning of each prompt the title of the session: kimi-code and copilot, of the first one.
    TitlesPrompt,
    /// It refuses `initialize` with an error of its own: one whose license has expired, say.
    RefusesInitialize,
    /// It never answers `initialize`: one that waits for a login, say.
    MuteOnInitialize,
    /// It answers `initialize` with the version that it is offered and speaks version 1: fast-agent-acp and the
    /// example agents of the Python SDK.
    EchoesVersion,
    /// The same, and its answer has the `info` of version 2, so that only its later messages show what it speaks.
    EchoesVersionWithInfo,
    /// A moment after it has made a session it asks for a permission, outside of any turn: agents that want to be trusted
    /// with a directory.
    AsksWhenOpened,
}

/// How many sessions are listed by an agent with [`Quirk::ShortList`].
pub const SHORT_LIST: usize = 100;
/// How long a long line is, at the least.
pub const LONG_LINE: usize = 570_000;
/// What is added after a cancel by an agent with [`Quirk::NotesInterruption`].
pub const INTERRUPTION: &str = "[Request interrupted by user]";
/// What is asked for by an agent with [`Quirk::AsksTheUnknown`].
pub const UNKNOWN_REQUEST: &str = "_scripted/unheard_of";
/// What is written by an agent with [`Quirk::Greets`], a line each.
pub const GREETING: [&str; 4] =
    ["Welcome!", "(node:7) Warning: {\"jsonrpc\": half a message", "{\"level\":\"info\",\"id\":1}", "[]"];

/// A quirk that only a process can have. The example `scripted_agent` of the command has it by its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessQuirk {
    /// It starts itself again, in a process group of its own, and waits for that: several agents start themselves again.
    Relaunches,
    /// It has a child that would not end with it: claude, gemini and qwen.
    HasChild,
    /// It leaves a process behind, in a session of its own, that ignores signals: whatever an agent's tools
    /// put into the background.
    LeavesDaemon,
    /// It ignores the end of its input, as several agents do, and all signals that can be ignored, as one that hangs.
    Stays,
    /// It takes five seconds to end when its input has ended: codex.
    EndsSlowly,
}

impl ProcessQuirk {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Relaunches, Self::HasChild, Self::LeavesDaemon, Self::Stays, Self::EndsSlowly];

    /// The flag that stands for it.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Relaunches => "--relaunches",
            Self::HasChild => "--has-child",
            Self::LeavesDaemon => "--leaves-daemon",
            Self::Stays => "--stays",
            Self::EndsSlowly => "--ends-slowly",
        }
    }
}
