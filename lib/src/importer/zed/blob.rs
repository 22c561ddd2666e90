//! The conversation of a Zed thread as compressed JSON. It is decompressed and parsed message by message, twice: what says
//! how to read the messages comes after them.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::older;
use crate::importer::reader::ReadError;
use crate::importer::sink::UsedTokens;

/// The most JSON that one message may have, and one thread.
const MAX_MESSAGE_BYTES: u64 = 64 * 1024 * 1024;
const MAX_THREAD_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// How much is read at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// The fields of a thread that are known and not needed.
const KNOWN: [&str; 15] = [
    "cumulative_token_usage",
    "detailed_summary",
    "detailed_summary_state",
    "draft_prompt",
    "exceeded_window_error",
    "profile",
    "sandbox_grants",
    "sandboxed_terminal_temp_dir",
    "speed",
    "subagent_context",
    "thinking_effort",
    "thinking_enabled",
    "tool_use_limit_reached",
    "ui_scroll_position",
    "updated_at",
];

/// A conversation that was not read yet.
pub(super) struct ZedBlob {
    path: PathBuf,
    thread: String,
    is_compressed: bool,
    data: Vec<u8>,
}

/// What a thread says besides its messages.
#[derive(Debug, Default)]
pub(super) struct ZedHead {
    /// The version of the format; empty in the oldest.
    pub(super) version: String,
    pub(super) title: String,
    /// The provider and the model that were chosen last.
    pub(super) model: Option<String>,
    /// A folder of the project.
    pub(super) folder: Option<String>,
    /// The tokens of the last request for each user message, by its id.
    pub(super) tokens: HashMap<String, UsedTokens>,
    /// The same in the old format, by the place of the message.
    pub(super) older_tokens: Vec<UsedTokens>,
    /// The fields that are not known.
    pub(super) unknown: Vec<String>,
}

/// A message with its place in the thread.
pub(super) struct ZedMessage {
    pub(super) place: usize,
    pub(super) body: Value,
}

/// Takes messages one after the other.
type EachMessage<'a> = &'a mut dyn FnMut(ZedMessage) -> Result<(), ReadError>;

impl ZedHead {
    /// Says whether the messages are in the format that Zed had before 0.3.0.
    pub(super) fn is_older(&self) -> bool {
        matches!(self.version.as_str(), "" | "0.1.0" | "0.2.0")
    }
}

impl ZedBlob {
    pub(super) fn new(path: &Path, thread: &str, kind: &str, data: Vec<u8>) -> Self {
        Self { path: path.to_owned(), thread: thread.to_owned(), is_compressed: kind == "zstd", data }
    }

    /// Reads all but the messages.
    pub(super) fn head(&self) -> Result<ZedHead, ReadError> {
        let mut head = ZedHead::default();
        self.walk(Pass::new(&mut head, None, &mut None))?;
        Ok(head)
    }

    /// Gives the messages one after the other.
    pub(super) fn messages(&self, head: &ZedHead, each: EachMessage<'_>) -> Result<(), ReadError> {
        let mut ignored = ZedHead::default();
        let mut merged = older::Merging::new(head, each);
        let mut given = |message: ZedMessage| merged.message(message);
        let mut failure = None;
        let each: Option<EachMessage<'_>> = Some(&mut given);
        let walked = self.walk(Pass::new(&mut ignored, each, &mut failure));
        match failure {
            Some(failure) => return Err(failure),
            None => walked?,
        }
        merged.finish()
    }

    fn walk(&self, pass: Pass<'_, '_>) -> Result<(), ReadError> {
        let bytes = &self.data[..];
        let walked = if self.is_compressed {
            match zstd::stream::read::Decoder::new(bytes) {
                Ok(decoder) => parse(decoder, pass),
                Err(error) => Err(error.to_string()),
            }
        } else {
            parse(bytes, pass)
        };
        walked.map_err(|error| {
            let reason = format!("has thread {}, which is damaged: {error}", self.thread);
            ReadError::Format { path: self.path.clone(), reason }
        })
    }
}

fn parse(input: impl Read, pass: Pass<'_, '_>) -> Result<(), String> {
    let limited = Limited { input, budget: pass.budget.clone(), left: MAX_THREAD_BYTES };
    let mut parser = serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER_BYTES, limited));
    pass.deserialize(&mut parser).and_then(|()| parser.end()).map_err(|error| error.to_string())
}

/// Fails when more is read than may be kept in memory at once, or in total.
struct Limited<R> {
    input: R,
    budget: Rc<Cell<u64>>,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let left = (self.budget.get().checked_sub(read as u64), self.left.checked_sub(read as u64));
        let (Some(budget), Some(left)) = left else {
            return Err(io::Error::other("it has a message that is too long"));
        };
        self.budget.set(budget);
        self.left = left;
        Ok(read)
    }
}

/// One reading of a thread.
struct Pass<'a, 'b> {
    head: &'a mut ZedHead,
    each: Option<EachMessage<'b>>,
    failure: &'a mut Option<ReadError>,
    /// How much may be read before something is given away, and how much of that is left.
    limit: u64,
    budget: Rc<Cell<u64>>,
}

impl<'a, 'b> Pass<'a, 'b> {
    fn new(head: &'a mut ZedHead, each: Option<EachMessage<'b>>, failure: &'a mut Option<ReadError>) -> Self {
        let (limit, budget) = (MAX_MESSAGE_BYTES, Rc::new(Cell::new(MAX_MESSAGE_BYTES)));
        Self { head, each, failure, limit, budget }
    }
}

impl<'de> DeserializeSeed<'de> for Pass<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pass<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            self.budget.set(self.limit);
            match (name.as_str(), &mut self.each) {
                ("messages", Some(each)) => {
                    let (limit, budget) = (self.limit, &*self.budget);
                    let seed = Messages { each, failure: self.failure, limit, budget };
                    map.next_value_seed(seed)?;
                }
                ("messages", None) => {
                    // Nothing of them is kept.
                    self.budget.set(u64::MAX);
                    map.next_value::<IgnoredAny>()?;
                }
                (_, Some(_)) => {
                    map.next_value::<IgnoredAny>()?;
                }
                (_, None) => self.head.field(&name, &mut map)?,
            }
        }
        Ok(())
    }
}

impl ZedHead {
    fn field<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "version" => self.version = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "title" | "summary" => self.title = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "model" => self.model = map.next_value::<Option<Named>>()?.map(|model| model.name()),
            "initial_project_snapshot" => {
                let snapshot = map.next_value::<Option<ProjectFolders>>()?.unwrap_or_default();
                self.folder = snapshot.worktree_snapshots.into_iter().next().map(|tree| tree.worktree_path);
            }
            "request_token_usage" => match map.next_value::<TokenTable>()? {
                TokenTable::ById(tokens) => {
                    self.tokens = tokens.into_iter().map(|(id, tokens)| (id, tokens.used())).collect();
                }
                TokenTable::ByPlace(tokens) => {
                    self.older_tokens = tokens.into_iter().map(|tokens| tokens.used()).collect();
                }
                TokenTable::Other(IgnoredAny) => {}
            },
            _ => {
                map.next_value::<IgnoredAny>()?;
                if !KNOWN.contains(&name) && self.unknown.len() < 100 {
                    self.unknown.push(name.to_owned());
                }
            }
        }
        Ok(())
    }
}

struct Messages<'a, 'b, 'c> {
    each: &'a mut EachMessage<'b>,
    failure: &'c mut Option<ReadError>,
    limit: u64,
    budget: &'a Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for Messages<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Messages<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut place = 0;
        self.budget.set(self.limit);
        while let Some(body) = list.next_element::<Value>()? {
            self.budget.set(self.limit);
            if let Err(failure) = (self.each)(ZedMessage { place, body }) {
                *self.failure = Some(failure);
                return Err(A::Error::custom("the reading was stopped"));
            }
            place += 1;
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    provider: String,
    model: String,
}

impl Named {
    fn name(self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectFolders {
    worktree_snapshots: Vec<ProjectFolder>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProjectFolder {
    worktree_path: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TokenTable {
    ById(HashMap<String, ZedTokens>),
    ByPlace(Vec<ZedTokens>),
    Other(IgnoredAny),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ZedTokens {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

impl ZedTokens {
    fn used(&self) -> UsedTokens {
        UsedTokens {
            input: self.input_tokens,
            output: self.output_tokens,
            cached_read: self.cache_read_input_tokens,
            cached_write: self.cache_creation_input_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::{BUFFER_BYTES, Pass, ZedHead, ZedMessage, parse};

    /// Reads a thread whose messages may have so many bytes. Returns the number of messages.
    fn read(lengths: &[usize], limit: u64) -> (usize, Result<(), String>) {
        let message =
            |length: &usize| format!(r#"{{"User":{{"content":[{{"Text":"{}"}}]}}}}"#, "x".repeat(*length));
        let messages: Vec<_> = lengths.iter().map(message).collect();
        let json = format!(r#"{{"messages":[{}],"version":"0.3.0"}}"#, messages.join(","));
        let compressed = zstd::encode_all(json.as_bytes(), 1).expect("it can be compressed");
        let decoder = zstd::stream::read::Decoder::new(&compressed[..]).expect("it is compressed");
        let mut count = 0;
        let mut each = |_: ZedMessage| {
            count += 1;
            Ok(())
        };
        let (mut head, mut failure) = (ZedHead::default(), None);
        let pass = Pass::new(&mut head, Some(&mut each), &mut failure);
        let parsed = parse(decoder, Pass { limit, budget: Rc::new(Cell::new(limit)), ..pass });
        (count, parsed)
    }

    #[test]
    fn a_message_that_expands_to_too_much_is_refused_and_many_small_ones_are_not() {
        let (buffer, limit) = (BUFFER_BYTES, 4 * BUFFER_BYTES as u64);
        assert_eq!(read(&[buffer; 20], limit), (20, Ok(())));
        let (count, parsed) = read(&[buffer, 6 * buffer], limit);
        let error = parsed.expect_err("the second message is too long");
        assert!(count == 1 && error.contains("a message that is too long"), "{count} {error}");
    }
}
