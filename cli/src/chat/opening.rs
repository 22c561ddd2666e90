//! Opens the session of a chat: a new one, or one that exists, with the end of its history.

use std::collections::VecDeque;

use rethread::client::view::SessionView;
use rethread::client::{ClientError, ClientSession};
use rethread::edge::client_request::{ReplayFrom, Setup};
use rethread::store::{SessionRow, Store};
use rethread_core::{Entry, Seq, SessionId, Subject};

use super::connection::{ChatEvent, Connected, Conversation, failure, with_events};
use crate::failure::{ExitCode, Failure};

/// How many turns of the history are shown, and how many bytes of its entries at most.
const SHOWN_TURNS: usize = 2;
const SHOWN_BYTES: usize = 2 * 1024 * 1024;
/// How many entries are read at first to find the last turns.
const FIRST_STEP: u64 = 200;
/// How many bytes of a journal are read at a time.
const PAGE_BYTES: usize = 1024 * 1024;

/// The session of a chat.
#[derive(Clone, Debug)]
pub(crate) enum ChatSession {
    /// A new one in this directory.
    New {
        /// The working directory.
        cwd: String,
    },
    /// One that exists.
    Existing(Box<SessionRow>),
}

impl ChatSession {
    /// Refuses a session that another process has open.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Self::Existing(row) = self else { return Ok(()) };
        match &row.owner {
            None => Ok(()),
            Some(owner) => {
                let message =
                    format!("session {} is open in process {} on {}", row.id, owner.pid, owner.host);
                let hint = format!("close it there, or run `rethread release {}`", row.id);
                Err(Failure::new(ExitCode::Refused, message).hint(hint))
            }
        }
    }
}

impl ChatSession {
    /// Where the part of the history begins that is shown.
    pub(crate) async fn shown_from(&self, store: &dyn Store) -> Result<ReplayFrom, Failure> {
        match self {
            Self::New { .. } => Ok(ReplayFrom::Nothing),
            Self::Existing(row) => last_turns(store, row).await,
        }
    }
}

/// How opening a session went.
pub(crate) enum Opened {
    /// It is open.
    Chat(Box<Conversation>),
    /// The agent requires a login.
    LoginRequired(Box<Connected>, ClientError),
}

impl Conversation {
    /// Opens the session. `each` sees what happens before it is open: of a session that exists what is replayed.
    pub(crate) async fn open(
        mut connected: Connected,
        choice: &ChatSession,
        replay: &ReplayFrom,
        mut each: impl FnMut(&mut SessionView, ChatEvent),
    ) -> Result<Opened, Failure> {
        let mut view = SessionView::default();
        match connected.open(choice, replay, |event| each(&mut view, event)).await {
            Ok(session) => {
                let Connected { client, events, ending } = connected;
                Ok(Opened::Chat(Box::new(Self { client, session, view, events, ending })))
            }
            Err(error) if error.requires_login() => Ok(Opened::LoginRequired(Box::new(connected), error)),
            Err(error) => {
                connected.close().await;
                Err(failure(error))
            }
        }
    }
}

impl Connected {
    async fn open(
        &mut self,
        choice: &ChatSession,
        replay: &ReplayFrom,
        each: impl FnMut(ChatEvent),
    ) -> Result<ClientSession, ClientError> {
        let Self { client, events, .. } = self;
        match choice {
            ChatSession::New { cwd } => {
                let setup = Setup { cwd: cwd.clone(), ..Setup::default() };
                with_events(events, client.new_session(&setup), each).await
            }
            ChatSession::Existing(row) => {
                let setup = setup_of(row);
                with_events(events, client.attach(&row.id, &setup, replay), each).await
            }
        }
    }
}

/// What a session that exists is opened with.
pub(crate) fn setup_of(row: &SessionRow) -> Setup {
    Setup { cwd: row.cwd.clone(), roots: row.roots.clone(), ..Setup::default() }
}

/// Where the last turns begin. Reads the journal from its end, so that a long session opens quickly. Of turns that are very
/// long, only the end is shown.
pub(crate) async fn last_turns(store: &dyn Store, row: &SessionRow) -> Result<ReplayFrom, Failure> {
    let (head, mut step) = (row.head.0, FIRST_STEP);
    loop {
        let from = head.saturating_sub(step);
        let tail = JournalTail::read(store, &row.id, Seq(from)).await?;
        if tail.prompts.len() > SHOWN_TURNS || tail.bytes > SHOWN_BYTES {
            return Ok(tail.shown());
        }
        if from == 0 {
            return Ok(ReplayFrom::Start);
        }
        step *= 8;
    }
}

/// The messages at the end of a journal.
#[derive(Default)]
struct JournalTail {
    /// The size of all that was read.
    bytes: usize,
    /// The newest prompts.
    prompts: VecDeque<MessagePlace>,
    /// The messages that are near enough to the end to be shown.
    messages: VecDeque<MessagePlace>,
}

/// A message, and how much is before it.
struct MessagePlace {
    id: String,
    before: usize,
}

impl JournalTail {
    /// Reads from a place on.
    async fn read(store: &dyn Store, session: &SessionId, from: Seq) -> Result<Self, Failure> {
        let (mut tail, mut next) = (Self::default(), from);
        loop {
            let page = store.read(session, next, PAGE_BYTES).await?;
            page.decode()?.iter().for_each(|item| tail.add(&item.entry));
            if page.end {
                return Ok(tail);
            }
            next = page.next;
        }
    }

    fn add(&mut self, entry: &Entry) {
        let before = self.bytes;
        if let Entry::PromptInserted { message, content, .. } = entry {
            self.bytes += content.text().len();
            self.prompts.push_back(MessagePlace { id: message.0.clone(), before });
        } else if let Entry::Updated { update, .. } = entry {
            self.bytes += update.body.text().len();
            // A chunk belongs to a message that began earlier, or begins one.
            let is_new = self.messages.back().is_none_or(|last| last.id != update.id);
            if update.kind.subject() == Subject::AgentMessage && is_new {
                self.messages.push_back(MessagePlace { id: update.id.clone(), before });
            }
        }
        while self.prompts.len() > SHOWN_TURNS + 1 {
            self.prompts.pop_front();
        }
        while self.messages.front().is_some_and(|first| self.bytes - first.before > SHOWN_BYTES) {
            self.messages.pop_front();
        }
    }

    /// Where to begin: with the last turns, with fewer of them, or inside of the last one.
    fn shown(self) -> ReplayFrom {
        let last_turns = self.prompts.iter().rev().take(SHOWN_TURNS).collect::<Vec<_>>();
        let places = last_turns.into_iter().rev().chain(&self.messages);
        let mut fitting = places.filter(|place| self.bytes - place.before <= SHOWN_BYTES);
        fitting.next().map_or(ReplayFrom::Nothing, |place| ReplayFrom::Message(place.id.clone()))
    }
}

#[cfg(test)]
mod tests {
    use rethread_core::{MessageId, TurnNo, Update};
    use serde_json::json;

    use super::*;

    fn prompt(id: &str) -> Entry {
        let content = json!([{"type": "text", "text": id}]).into();
        Entry::PromptInserted { message: MessageId(id.to_owned()), turn: TurnNo(1), content, at: 0 }
    }

    fn chunk(id: &str, bytes: usize) -> Entry {
        let body = json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": "x".repeat(bytes)}});
        Entry::Updated { update: Update::read(body.into()), known: false }
    }

    /// The message that the history is shown from, if it is shown at all.
    fn begins(entries: &[Entry]) -> Option<String> {
        let mut tail = JournalTail::default();
        entries.iter().for_each(|entry| tail.add(entry));
        if let ReplayFrom::Message(id) = tail.shown() { Some(id) } else { None }
    }

    #[test]
    fn the_end_of_a_history_is_shown_as_far_as_it_fits() {
        let (some, most) = (SHOWN_BYTES / 3, SHOWN_BYTES - 1000);
        let turn =
            |number: usize, bytes| [prompt(&format!("p{number}")), chunk(&format!("m{number}"), bytes)];
        let turns = |sizes: [usize; 3]| [turn(1, sizes[0]), turn(2, sizes[1]), turn(3, sizes[2])].concat();
        assert_eq!(begins(&turns([some; 3])).as_deref(), Some("p2"), "the last two turns");
        assert_eq!(begins(&turns([some, most, some])).as_deref(), Some("p3"), "the last turn");
        let long = [prompt("p"), chunk("a", most), chunk("b", some), chunk("b", some), chunk("c", some / 2)];
        assert_eq!(begins(&long).as_deref(), Some("b"), "the end of the last turn");
        assert_eq!(begins(&[prompt("p"), chunk("a", most), chunk("a", most)]), None, "nothing fits");
    }
}
