//! Opens the session of a chat: a new one, or one that exists, with the end of its history.

use rethread::client::view::SessionView;
use rethread::client::{ClientError, ClientSession};
use rethread::edge::client_request::{ReplayFrom, Setup};
use rethread::store::{SessionRow, Store};
use rethread_core::{Entry, Seq, SessionId};

use super::connection::{ChatEvent, Connected, Conversation, failure, with_events};
use crate::failure::{ExitCode, Failure};

/// How many turns of the history are shown.
const SHOWN_TURNS: usize = 2;
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

/// Where the last turns begin. Reads the journal from its end, so that a long session opens quickly.
pub(crate) async fn last_turns(store: &dyn Store, row: &SessionRow) -> Result<ReplayFrom, Failure> {
    let (head, mut step) = (row.head.0, FIRST_STEP);
    loop {
        let from = head.saturating_sub(step);
        let prompts = prompts_from(store, &row.id, Seq(from)).await?;
        if prompts.len() > SHOWN_TURNS {
            return Ok(ReplayFrom::Message(prompts[prompts.len() - SHOWN_TURNS].clone()));
        }
        if from == 0 {
            return Ok(ReplayFrom::Start);
        }
        step *= 8;
    }
}

/// The ids of the prompts from a place on.
async fn prompts_from(store: &dyn Store, session: &SessionId, from: Seq) -> Result<Vec<String>, Failure> {
    let (mut prompts, mut next) = (Vec::new(), from);
    loop {
        let page = store.read(session, next, PAGE_BYTES).await?;
        for item in page.decode()? {
            if let Entry::PromptInserted { message, .. } = item.entry {
                prompts.push(message.0);
            }
        }
        if page.end {
            return Ok(prompts);
        }
        next = page.next;
    }
}
