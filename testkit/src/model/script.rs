//! Plans of a test for the next request to the model: text, tool calls, failures, stalls.

use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{Call, Ending, Reply, ReplyPart, Tokens};

/// What the server does with one request.
#[derive(Clone, Debug)]
pub struct Planned {
    refused: Option<Refused>,
    reply: Reply,
}

/// An answer that is no answer.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Default for Planned {
    fn default() -> Self {
        Self::new()
    }
}

impl Planned {
    /// Nothing is said, and it ends well.
    #[must_use]
    pub fn new() -> Self {
        let tokens = Tokens { input: 1000, output: 10, cached: 0 };
        Self { refused: None, reply: Reply::new(0, Vec::new(), tokens) }
    }

    /// The request is refused with a status and a body.
    #[must_use]
    pub fn status(status: u16, body: Value) -> Self {
        Self { refused: Some(Refused { status, headers: Vec::new(), body }), ..Self::new() }
    }

    /// The refusal has one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(refused) = &mut self.refused {
            refused.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// A piece of text is said.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.and(ReplyPart::Text(text.to_owned()))
    }

    /// A piece of thought is said.
    #[must_use]
    pub fn thought(self, text: &str) -> Self {
        self.and(ReplyPart::Thought(text.to_owned()))
    }

    /// A tool is called.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        self.raw_call(name, &arguments.to_string())
    }

    /// A tool is called with any text for arguments.
    #[must_use]
    pub fn raw_call(self, name: &str, arguments: &str) -> Self {
        self.and(ReplyPart::Call(Call {
            name: name.to_owned(),
            group: None,
            arguments: arguments.to_owned(),
        }))
    }

    /// An event is told as it is.
    #[must_use]
    pub fn event(self, event: Value) -> Self {
        self.and(ReplyPart::Raw(event))
    }

    /// The answer says that it used this much.
    #[must_use]
    pub fn usage(mut self, input: u64, cached: u64, output: u64) -> Self {
        self.reply.tokens = Tokens { input, output, cached };
        self
    }

    /// There is a pause after each piece.
    #[must_use]
    pub fn slowly(mut self, pause: Duration) -> Self {
        self.reply.delay = pause;
        self
    }

    /// The answer ends because it may not be longer.
    #[must_use]
    pub fn too_long(self) -> Self {
        self.ending(Ending::Length)
    }

    /// The connection is dropped after the last piece.
    #[must_use]
    pub fn breaks_off(self) -> Self {
        self.ending(Ending::BrokenOff)
    }

    /// The answer is over after the last piece, without the event that says so.
    #[must_use]
    pub fn cut_short(self) -> Self {
        self.ending(Ending::CutShort)
    }

    /// The answer has no body at all.
    #[must_use]
    pub fn empty() -> Self {
        Self::new().ending(Ending::Empty)
    }

    /// After the last piece comes one line that does not end before the peer hangs up.
    #[must_use]
    pub fn endless(self) -> Self {
        self.ending(Ending::Endless)
    }

    /// Nothing more comes after the last piece until the peer hangs up.
    #[must_use]
    pub fn stalls(self) -> Self {
        self.ending(Ending::Stalled)
    }

    /// An event that is no JSON comes after the last piece.
    #[must_use]
    pub fn malformed(self) -> Self {
        self.ending(Ending::Malformed)
    }

    fn ending(mut self, ending: Ending) -> Self {
        self.reply.ending = ending;
        self
    }

    fn and(mut self, said: ReplyPart) -> Self {
        self.reply.said.push(said);
        self
    }

    pub(super) fn into_parts(self, number: usize) -> Result<Reply, Refused> {
        match self.refused {
            Some(refused) => Err(refused),
            None => Ok(Reply { number, ..self.reply }),
        }
    }
}

/// What most servers say with a status.
#[must_use]
pub fn error_body(message: &str) -> Value {
    json!({"error": {"message": message}})
}
