//! Parses scripts: the text of a prompt, one step on each line or between `;`. A line that begins with `raw` is a
//! single step.

use serde_json::Value;

/// One step of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `say TEXT`: one message in one chunk. Text that is not a step is answered with `you said: TEXT`.
    Say(String),
    /// `think TEXT`: a thought.
    Think(String),
    /// `tool ID`: a tool call from its announcement to its end, with text and a diff.
    Tool(String),
    /// `permit`: asks for permission and reports the answer.
    Permit,
    /// `mode ID`: the agent changes its own mode.
    Mode(String),
    /// `hang`: waits for a cancel.
    Hang,
    /// `fail`: the turn fails with an error.
    Fail,
    /// `stop REASON`: the turn ends with this reason.
    Stop(String),
    /// Any other step.
    Aside(Aside),
}

/// A step that the example agent does not need to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aside {
    /// `whole TEXT`: a message as a whole in version 2, a chunk in version 1.
    Whole(String),
    /// `chunks N`: one message in so many chunks, `c1 c2 …`.
    Chunks(usize),
    /// `noid`: from here on version 1 leaves the ids of messages out.
    NoId,
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
    /// `commands NAME,…`: the available commands; `plan` and `test` if none is named.
    Commands(Vec<String>),
    /// `title TEXT`: the agent's own title.
    Title(String),
    /// `elicit`: asks for a name and reports the answer.
    Elicit,
    /// `notice TEXT`: a notice, which is not stored. Version 1 sends it only to clients that support notices.
    Notice(String),
    /// `compact`: a compaction from its beginning to its end. Version 1 as for notices.
    Compact,
    /// `unknown TAG`: an update of an unknown kind, `future_thing` if none is named.
    Unknown(String),
    /// `ext METHOD`: a request to the client, `_test/echo` if none is named; reports the answer.
    Ext(String),
    /// `tell METHOD`: a notification to the client, `_test/told` if none is named.
    Tell(String),
    /// `fs PATH`: reads a file with the client in version 1; version 2 reports that it cannot.
    Fs(String),
    /// `write PATH TEXT`: writes a file with the client in version 1; version 2 reports that it cannot.
    Write(String, String),
    /// `term LINE`: a terminal inside a tool call, from its start to its release: the client's in version 1,
    /// the agent's own in version 2, which has always run `echo hi`. Version 1 runs that if no line is given.
    Term(Option<String>),
    /// `spawn LINE`: the same in version 1, but it is left running.
    Spawn(String),
    /// `kill`: ends the last terminal that was left running, and reports how it ended.
    Kill,
    /// `termopen`: a terminal inside a tool call that stays open: the client's in version 1, the agent's own,
    /// which can be cancelled, in version 2.
    TermOpen,
    /// `apart METHOD`: a request to the client that belongs to no session, `mcp/message` if none is named; reports the
    /// answer.
    Apart(String),
    /// `takeback METHOD`: a request to the client that is cancelled at once, `session/request_permission` if none is
    /// named; reports the answer.
    TakeBack(String),
    /// `late TEXT`: waits for a cancel, and then sends a tool call and this text.
    Late(String),
    /// `abort`: waits for a cancel and fails.
    Abort,
    /// `slow N`: so many chunks with 5 ms between them.
    Slow(usize),
    /// `paced RATE N`: one message in so many chunks, so many in a second, with a paragraph after every fortieth.
    Paced(u32, usize),
    /// `deaf`: ignores a cancel forever.
    Deaf,
    /// `wait NAME`: waits until the test opens this gate, or for a cancel.
    Wait(String),
    /// `crash`: ends the connection at once.
    Crash,
    /// `subagent`: a sub-agent that is announced and sends a message.
    Subagent,
    /// `raw JSON`: an update, byte for byte, to the end of the line.
    Raw(String),
    /// `rawof SESSION JSON`: the same with another session id.
    RawOf(String, String),
}

/// Reads the script of a prompt.
#[must_use]
pub fn script(prompt: &[Value]) -> Vec<Step> {
    let blocks = prompt.iter().filter(|block| !is_transcript(block));
    let text = blocks.map(|block| match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        other => format!("say got a {}", other.unwrap_or_default()),
    });
    steps(&text.collect::<Vec<_>>().join("\n"))
}

/// A transcript of an earlier conversation is not a script.
pub(super) fn is_transcript(block: &Value) -> bool {
    let text = block["text"].as_str().unwrap_or_default();
    text.starts_with("# The conversation so far") || block["resource"]["uri"] == "rethread://transcript"
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
        "think" => Step::Think(rest.to_owned()),
        "tool" => Step::Tool(or("call_1")),
        "permit" => Step::Permit,
        "mode" => Step::Mode(or("b")),
        "hang" => Step::Hang,
        "fail" => Step::Fail,
        "stop" => Step::Stop(or("end_turn")),
        _ => match aside(word, rest) {
            Some(step) => Step::Aside(step),
            None => Step::Say(format!("you said: {line}")),
        },
    }
}

fn aside(word: &str, rest: &str) -> Option<Aside> {
    let or = |standard: &str| if rest.is_empty() { standard.to_owned() } else { rest.to_owned() };
    let step = match word {
        "whole" => Aside::Whole(rest.to_owned()),
        "chunks" => Aside::Chunks(rest.parse().unwrap_or(3)),
        "noid" => Aside::NoId,
        "toolopen" => Aside::ToolOpen(or("call_1")),
        "unannounced" => Aside::Unannounced(or("call_1")),
        "long" => Aside::Long,
        "print" => Aside::Print(rest.to_owned()),
        "torn" => Aside::Torn,
        "meta" => Aside::Meta(or("call_1")),
        "plan" => Aside::Plan(list(&or("one,two"))),
        "usage" => {
            let (used, size) = rest.split_once('/').unwrap_or(("10", "100"));
            Aside::Usage(used.parse().unwrap_or(10), size.parse().unwrap_or(100))
        }
        "commands" => Aside::Commands(list(&or("plan,test"))),
        "title" => Aside::Title(or("A title")),
        "elicit" => Aside::Elicit,
        "notice" => Aside::Notice(or("Look out")),
        "compact" => Aside::Compact,
        "unknown" => Aside::Unknown(or("future_thing")),
        "ext" => Aside::Ext(or("_test/echo")),
        "tell" => Aside::Tell(or("_test/told")),
        "fs" => Aside::Fs(or("a.txt")),
        "write" => {
            let (path, text) = rest.split_once(' ').unwrap_or(("a.txt", "written"));
            Aside::Write(path.to_owned(), text.to_owned())
        }
        "term" => Aside::Term((!rest.is_empty()).then(|| rest.to_owned())),
        "spawn" => Aside::Spawn(or("sleep 100")),
        "kill" => Aside::Kill,
        "termopen" => Aside::TermOpen,
        "apart" => Aside::Apart(or("mcp/message")),
        "takeback" => Aside::TakeBack(or("session/request_permission")),
        "late" => Aside::Late(or("late")),
        "abort" => Aside::Abort,
        "slow" => Aside::Slow(rest.parse().unwrap_or(10)),
        "paced" => {
            let (rate, count) = rest.split_once(' ').unwrap_or((rest, ""));
            Aside::Paced(rate.parse().unwrap_or(100).max(1), count.parse().unwrap_or(100))
        }
        "deaf" => Aside::Deaf,
        "wait" => Aside::Wait(or("gate")),
        "crash" => Aside::Crash,
        "subagent" => Aside::Subagent,
        "raw" => Aside::Raw(rest.to_owned()),
        "rawof" => {
            let (session, update) = rest.split_once(' ').unwrap_or((rest, "{}"));
            Aside::RawOf(session.to_owned(), update.to_owned())
        }
        _ => return None,
    };
    Some(step)
}

fn list(words: &str) -> Vec<String> {
    words.split(',').map(|word| word.trim().to_owned()).collect()
}
