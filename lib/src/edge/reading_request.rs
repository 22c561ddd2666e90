//! The requests that read sessions without claiming them, the same in both versions: decodes and validates their parameters.

use rethread_core::Seq;

use super::params::{Params, absolute};
use crate::wire::RpcError;

/// The notification with what happens in a session that a client follows.
pub const FOLLOWED: &str = "_rethread/followed";

/// The number of items of a page if the client does not say how many it wants.
const DEFAULT_LIMIT: usize = 50;

/// The largest number of items of a page.
const MAX_LIMIT: usize = 500;

/// A request that reads without claiming.
#[derive(Debug)]
pub enum ReadingRequest {
    /// `_rethread/follow`: what happens from now on.
    Follow {
        /// The id of the session.
        session: String,
        /// The last entry that the client knows.
        after: Seq,
    },
    /// `_rethread/unfollow`.
    Unfollow {
        /// The id of the session.
        session: String,
    },
    /// A request that is answered from the store.
    Query(ReadingQuery),
}

/// A request that is answered from the store.
#[derive(Debug)]
pub enum ReadingQuery {
    /// `_rethread/read`: one page of items.
    Read(ReadParams),
    /// `_rethread/outline`: the turns of a session, without their content.
    Outline {
        /// The id of the session.
        session: String,
    },
    /// `_rethread/export`: a session as text, piece by piece.
    Export(ExportParams),
    /// `_rethread/usage`: the turns, tokens and cost of all sessions.
    Usage(UsageParams),
}

/// The parameters of `_rethread/export`.
#[derive(Debug)]
pub struct ExportParams {
    /// The id of the session.
    pub session: String,
    /// What it is written as.
    pub format: ExportFormatParam,
    /// Whether what looks like a secret is replaced; the format decides if the client does not say it.
    pub redact: Option<bool>,
    /// The cursor that the previous piece came with.
    pub cursor: Option<String>,
}

/// The `format` parameter of `_rethread/export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormatParam {
    /// Lines that can be imported.
    Lines,
    /// Markdown.
    Markdown,
    /// A web page.
    Html,
}

/// The parameters of `_rethread/usage`.
#[derive(Debug)]
pub struct UsageParams {
    /// Only turns since then, as the client wrote it.
    pub since: Option<String>,
    /// Only sessions with this working directory.
    pub cwd: Option<String>,
    /// Only turns of agents whose name contains this text.
    pub agent: Option<String>,
}

/// The parameters of `_rethread/read`.
#[derive(Debug)]
pub struct ReadParams {
    /// The id of the session.
    pub session: String,
    /// Which page.
    pub place: ReadPlace,
    /// The maximum number of items.
    pub limit: usize,
    /// Whether large items are wanted as a whole.
    pub whole: bool,
}

/// Which page is read.
#[derive(Debug)]
pub enum ReadPlace {
    /// The newest.
    Newest,
    /// The items before an entry.
    Before(Seq),
    /// The items after an entry.
    After(Seq),
    /// The items around a message or tool call.
    Around {
        /// Its id.
        id: String,
        /// An entry of it, if the client knows one.
        seq: Option<Seq>,
    },
}

impl ReadingRequest {
    /// Reads the parameters of a request with this method; nothing if it is no such request.
    pub fn decode(method: &str, params: &Params) -> Result<Option<Self>, RpcError> {
        let session = || params.text("sessionId");
        Ok(Some(match method {
            "_rethread/follow" => {
                let session = session()?;
                let after = seq(params, "after")?.ok_or_else(|| params.wrong("after", ENTRY))?;
                Self::Follow { session, after }
            }
            "_rethread/unfollow" => Self::Unfollow { session: session()? },
            "_rethread/read" => Self::Query(ReadingQuery::Read(ReadParams::read(params)?)),
            "_rethread/outline" => Self::Query(ReadingQuery::Outline { session: session()? }),
            "_rethread/export" => Self::Query(ReadingQuery::Export(ExportParams::read(params)?)),
            "_rethread/usage" => Self::Query(ReadingQuery::Usage(UsageParams::read(params)?)),
            _ => return Ok(None),
        }))
    }

    /// The session that it is about; nothing if it is about all of them.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Follow { session, .. } | Self::Unfollow { session } => Some(session),
            Self::Query(ReadingQuery::Read(ReadParams { session, .. })) => Some(session),
            Self::Query(ReadingQuery::Outline { session }) => Some(session),
            Self::Query(ReadingQuery::Export(ExportParams { session, .. })) => Some(session),
            Self::Query(ReadingQuery::Usage(_)) => None,
        }
    }
}

impl ReadParams {
    fn read(params: &Params) -> Result<Self, RpcError> {
        Ok(Self {
            session: params.text("sessionId")?,
            place: ReadPlace::read(params)?,
            limit: limit(params)?,
            whole: flag(params, "whole")?,
        })
    }
}

impl ExportParams {
    fn read(params: &Params) -> Result<Self, RpcError> {
        let session = params.text("sessionId")?;
        let format = match params.text("format")?.as_str() {
            "jsonl" => ExportFormatParam::Lines,
            "markdown" => ExportFormatParam::Markdown,
            "html" => ExportFormatParam::Html,
            _ => return Err(params.wrong("format", "\"jsonl\", \"markdown\" or \"html\"")),
        };
        let redact = match params.get("redact") {
            None => None,
            Some(_) => Some(flag(params, "redact")?),
        };
        Ok(Self { session, format, redact, cursor: params.optional_text("cursor")? })
    }
}

impl UsageParams {
    fn read(params: &Params) -> Result<Self, RpcError> {
        let cwd = params.optional_text("cwd")?;
        if let Some(cwd) = &cwd {
            absolute("cwd", cwd)?;
        }
        let (since, agent) = (params.optional_text("since")?, params.optional_text("agent")?);
        Ok(Self { since, cwd, agent })
    }
}

impl ReadPlace {
    fn read(params: &Params) -> Result<Self, RpcError> {
        let (before, after) = (seq(params, "before")?, seq(params, "after")?);
        let (around, seq) = (params.optional_text("around")?, seq(params, "seq")?);
        match (before, after, around) {
            (_, _, None) if seq.is_some() => Err(params.wrong("seq", "only together with around")),
            (None, None, None) => Ok(Self::Newest),
            (Some(before), None, None) => Ok(Self::Before(before)),
            (None, Some(after), None) => Ok(Self::After(after)),
            (None, None, Some(id)) => Ok(Self::Around { id, seq }),
            (Some(_), Some(_), _) => Err(params.wrong("after", "only one of before, after and around")),
            (_, _, Some(_)) => Err(params.wrong("around", "only one of before, after and around")),
        }
    }
}

const ENTRY: &str = "the number of an entry";

/// The number of an entry, which may be absent or null.
fn seq(params: &Params, name: &str) -> Result<Option<Seq>, RpcError> {
    let Some(value) = params.get(name) else { return Ok(None) };
    value.read::<u64>().map(|number| Some(Seq(number))).map_err(|_| params.wrong(name, ENTRY))
}

fn limit(params: &Params) -> Result<usize, RpcError> {
    let Some(value) = params.get("limit") else { return Ok(DEFAULT_LIMIT) };
    match value.read::<usize>() {
        Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
        Ok(_) | Err(_) => Err(params.wrong("limit", "a number from 1 to 500")),
    }
}

/// A boolean that may be absent or null.
fn flag(params: &Params, name: &str) -> Result<bool, RpcError> {
    let Some(value) = params.get(name) else { return Ok(false) };
    value.read::<bool>().map_err(|_| params.wrong(name, "true or false"))
}
