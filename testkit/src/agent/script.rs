//! The language of scripts: the text of a prompt, one step on each line or between `;`. A line that begins with
//! `raw` is one step as a whole. Reading only.

/// One step of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `say TEXT`: one message in one chunk. Text that is no step is answered with `you said: TEXT`.
    Say(String),
    /// `whole TEXT`: a message as a whole in version 2, a chunk in version 1.
    Whole(String),
    /// `chunks N`: one message in so many chunks, `c1 c2 …`.
    Chunks(usize),
    /// `noid`: from here on version 1 leaves the ids of messages out.
    NoId,
    /// `think TEXT`: a thought.
    Think(String),
    /// `tool ID`: a tool call from its announcement to its end, with text and a diff.
    Tool(String),
    /// `toolopen ID`: a tool call that is announced and never ends; in version 2 it can be cancelled.
    ToolOpen(String),
    /// `unannounced ID`: the end of a tool call that was never announced.
    Unannounced(String),
    /// `long`: one message in one line of [`LONG_LINE`](super::quirk::LONG_LINE) bytes and more.
    Long,
    /// `print TEXT`: a line on the agent's output that is not JSON.
    Print(String),
    /// `torn`: half a message, and then it crashes.
    Torn,
    /// `meta ID`: a tool call whose `_meta` is patched: `{a,b}`, then `a` goes and `c` comes.
    Meta(String),
    /// `plan A,B`: a plan with these entries; the first one is done.
    Plan(Vec<String>),
    /// `usage USED/SIZE`.
    Usage(u64, u64),
    /// `commands NAME,…`: the commands on offer; `plan` and `test` if none is named.
    Commands(Vec<String>),
    /// `title TEXT`: the agent's own title.
    Title(String),
    /// `permit`: asks for permission and says what came of it.
    Permit,
    /// `elicit`: asks for a name and says what came of it.
    Elicit,
    /// `mode ID`: the agent changes its own mode.
    Mode(String),
    /// `notice TEXT`: one that is not kept. Version 1 sends it only to clients that take it.
    Notice(String),
    /// `compact`: a compaction from its beginning to its end. Version 1 as for notices.
    Compact,
    /// `unknown TAG`: an update that nobody knows, `future_thing` if none is named.
    Unknown(String),
    /// `ext METHOD`: a request to the client, `_test/echo` if none is named; says what came of it.
    Ext(String),
    /// `tell METHOD`: a notification to the client, `_test/told` if none is named.
    Tell(String),
    /// `fs PATH`: reads a file: the client's in version 1, says so in version 2.
    Fs(String),
    /// `write PATH TEXT`: writes a file: the client's in version 1, says so in version 2.
    Write(String, String),
    /// `term LINE`: a terminal inside a tool call, from its start to its release: the client's in version 1,
    /// the agent's own in version 2, which has always run `echo hi`. Version 1 runs that if no line is given.
    Term(Option<String>),
    /// `spawn LINE`: the same in version 1, but it is left running.
    Spawn(String),
    /// `kill`: ends the last terminal that was left running, and says how it ended.
    Kill,
    /// `termopen`: a terminal inside a tool call that stays open: the client's in version 1, the agent's own,
    /// which can be cancelled, in version 2.
    TermOpen,
    /// `apart METHOD`: a request to the client that belongs to no session, `mcp/message` if none is named; says
    /// what came of it.
    Apart(String),
    /// `takeback METHOD`: a request to the client that is taken back at once, `session/request_permission` if
    /// none is named; says what came of it.
    TakeBack(String),
    /// `hang`: waits for a cancel.
    Hang,
    /// `late TEXT`: waits for a cancel, and then has a tool call and this to tell.
    Late(String),
    /// `abort`: waits for a cancel and fails at it.
    Abort,
    /// `slow N`: so many chunks with 5 ms between them.
    Slow(usize),
    /// `deaf`: ignores a cancel for ever.
    Deaf,
    /// `wait NAME`: waits until the test opens this gate, or for a cancel.
    Wait(String),
    /// `crash`: ends the connection at once.
    Crash,
    /// `fail`: the turn fails with an error.
    Fail,
    /// `stop REASON`: the turn ends so.
    Stop(String),
    /// `subagent`: a child that is announced and says something.
    Subagent,
    /// `raw JSON`: an update, byte for byte, to the end of the line.
    Raw(String),
    /// `rawof SESSION JSON`: the same in the name of another session.
    RawOf(String, String),
}

/// Reads a script.
#[must_use]
pub fn steps(text: &str) -> Vec<Step> {
    let lines = text.lines().map(str::trim).flat_map(|line| match line.starts_with("raw") {
        true => vec![line],
        false => line.split(';').map(str::trim).collect(),
    });
    lines.filter(|line| !line.is_empty()).map(step).collect()
}

fn step(line: &str) -> Step {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let or = |standard: &str| if rest.is_empty() { standard.to_owned() } else { rest.to_owned() };
    match word {
        "say" => Step::Say(rest.to_owned()),
        "whole" => Step::Whole(rest.to_owned()),
        "chunks" => Step::Chunks(rest.parse().unwrap_or(3)),
        "noid" => Step::NoId,
        "think" => Step::Think(rest.to_owned()),
        "tool" => Step::Tool(or("call_1")),
        "toolopen" => Step::ToolOpen(or("call_1")),
        "unannounced" => Step::Unannounced(or("call_1")),
        "long" => Step::Long,
        "print" => Step::Print(rest.to_owned()),
        "torn" => Step::Torn,
        "meta" => Step::Meta(or("call_1")),
        "plan" => Step::Plan(list(&or("one,two"))),
        "usage" => {
            let (used, size) = rest.split_once('/').unwrap_or(("10", "100"));
            Step::Usage(used.parse().unwrap_or(10), size.parse().unwrap_or(100))
        }
        "commands" => Step::Commands(list(&or("plan,test"))),
        "title" => Step::Title(or("A title")),
        "permit" => Step::Permit,
        "elicit" => Step::Elicit,
        "mode" => Step::Mode(or("b")),
        "notice" => Step::Notice(or("Look out")),
        "compact" => Step::Compact,
        "unknown" => Step::Unknown(or("future_thing")),
        "ext" => Step::Ext(or("_test/echo")),
        "tell" => Step::Tell(or("_test/told")),
        "fs" => Step::Fs(or("a.txt")),
        "write" => {
            let (path, text) = rest.split_once(' ').unwrap_or(("a.txt", "written"));
            Step::Write(path.to_owned(), text.to_owned())
        }
        "term" => Step::Term((!rest.is_empty()).then(|| rest.to_owned())),
        "spawn" => Step::Spawn(or("sleep 100")),
        "kill" => Step::Kill,
        "termopen" => Step::TermOpen,
        "apart" => Step::Apart(or("mcp/message")),
        "takeback" => Step::TakeBack(or("session/request_permission")),
        "hang" => Step::Hang,
        "late" => Step::Late(or("late")),
        "abort" => Step::Abort,
        "slow" => Step::Slow(rest.parse().unwrap_or(10)),
        "deaf" => Step::Deaf,
        "wait" => Step::Wait(or("gate")),
        "crash" => Step::Crash,
        "fail" => Step::Fail,
        "stop" => Step::Stop(or("end_turn")),
        "subagent" => Step::Subagent,
        "raw" => Step::Raw(rest.to_owned()),
        "rawof" => {
            let (session, update) = rest.split_once(' ').unwrap_or((rest, "{}"));
            Step::RawOf(session.to_owned(), update.to_owned())
        }
        _ => Step::Say(format!("you said: {line}")),
    }
}

fn list(words: &str) -> Vec<String> {
    words.split(',').map(|word| word.trim().to_owned()).collect()
}
