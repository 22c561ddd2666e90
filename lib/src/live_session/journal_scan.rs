//! Reads the journal for an agent that opens the session: the ids in use, the history or the transcript to give it, and
//! whether its own replay is complete.

use std::collections::HashSet;

use rethread_core::stored::{ItemSort, RawItem, Stored, StoredError};
use rethread_core::{Binding, Entry, Json, Seq, SessionId, Subject, TextPart, Update, readable_update};

use super::LiveSession;
use crate::edge::agent_translator::id_hash;
use crate::history::ConversationHistory;
use crate::seed::{self, Transcript};
use crate::store::{Store, StoreError};

/// How much of the journal is read at once.
const PAGE: usize = 1024 * 1024;

/// What an agent that opens a session needs of its past.
#[derive(Default)]
pub(crate) struct SessionPast {
    /// Every id that is in use before a new generation of the agent speaks.
    pub(super) ids: HashSet<u64>,
    /// The whole conversation, for an agent that keeps none.
    pub(super) history: Vec<Json>,
}

/// Reads what an agent needs of the past of a session, which nobody may fold meanwhile.
pub(super) async fn read_past(
    store: &dyn Store,
    session: &SessionId,
    history: Option<ConversationHistory>,
) -> Result<SessionPast, StoreError> {
    let (ids, history) = gather(store, session, (HashSet::new(), history), |(ids, history), item| {
        if item.sort() == ItemSort::Any {
            ids.extend(id_of(&item)?);
        }
        if let Some(history) = history {
            history.add(&item.folded()?);
        }
        Ok(())
    })
    .await?;
    Ok(SessionPast { ids, history: history.map(|mut history| history.list()).unwrap_or_default() })
}

/// The hash of the id that an item has. A prompt of a session that was taken in from an agent has the agent's id.
fn id_of(item: &Stored<'_>) -> Result<Option<u64>, StoredError> {
    let hash = |id: &str| (!id.is_empty()).then(|| id_hash(id));
    Ok(match item.raw_item() {
        Some(RawItem::Prompt { message: id, .. } | RawItem::Update { id, .. }) => hash(id),
        None => match &*item.clone().entry()? {
            Entry::Updated { update, .. } => hash(&update.id),
            Entry::PromptInserted { message, .. } => hash(message.as_str()),
            Entry::Opened { .. }
            | Entry::RootsSet { .. }
            | Entry::AgentBound { .. }
            | Entry::AgentLost { .. }
            | Entry::PromptHeld { .. }
            | Entry::PromptSent { .. }
            | Entry::PromptDropped { .. }
            | Entry::TurnStarted { .. }
            | Entry::StateChanged { .. }
            | Entry::TurnEnded { .. }
            | Entry::QuestionAsked { .. }
            | Entry::QuestionAnswered { .. }
            | Entry::QuestionWithdrawn { .. }
            | Entry::OptionAsked { .. }
            | Entry::OptionSettled { .. }
            | Entry::CancelAsked { .. }
            | Entry::TitleSet { .. } => None,
        },
    })
}

impl LiveSession {
    /// Reads the journal where the rung asks for it: the transcript for an agent that starts afresh, and how much
    /// the agent should have replayed.
    pub(super) async fn look_back(&mut self, binding: Binding, replayed: usize) -> Result<(), StoreError> {
        match binding {
            Binding::Fresh | Binding::Resumed => Ok(()),
            Binding::Reseeded => self.write_seed().await,
            Binding::Loaded => self.compare_replay(replayed).await,
        }
    }

    async fn write_seed(&mut self) -> Result<(), StoreError> {
        let transcript = gather(&*self.deps.store, &self.id, Transcript::default(), |transcript, item| {
            transcript.add(&item.folded()?);
            Ok(())
        })
        .await?;
        self.agent.seed = transcript.write(seed::BUDGET);
        Ok(())
    }

    async fn compare_replay(&self, replayed: usize) -> Result<(), StoreError> {
        // A long journal is not read for a line that nobody sees.
        if !tracing::enabled!(tracing::Level::INFO) {
            return Ok(());
        }
        let kept = gather(&*self.deps.store, &self.id, 0, |kept, item| {
            *kept += agent_text(&*item.entry()?);
            Ok(())
        })
        .await?;
        if kept != replayed {
            tracing::info!(
                session = %self.id,
                "the agent replayed {replayed} characters of its own text, the journal has {kept}"
            );
        }
        Ok(())
    }
}

/// Reads a whole journal, item by item, and gives what was gathered of it.
async fn gather<G>(
    store: &dyn Store,
    session: &SessionId,
    mut gathered: G,
    add: impl Fn(&mut G, Stored<'_>) -> Result<(), StoredError>,
) -> Result<G, StoreError> {
    let mut from = Seq(0);
    loop {
        let page = store.read(session, from, PAGE).await?;
        for item in page.items() {
            let item = item?;
            let first = item.first;
            add(&mut gathered, item).map_err(|cause| page.damaged(first, cause))?;
        }
        if page.end {
            return Ok(gathered);
        }
        from = page.next;
    }
}

/// How many characters of the agent's own text an entry holds.
fn agent_text(entry: &Entry) -> usize {
    if let Entry::Updated { update, .. } = entry { said_by_agent(update) } else { 0 }
}

/// How many characters of the agent's own text an update holds.
pub(super) fn said_by_agent(update: &Update) -> usize {
    if update.kind.subject() != Subject::AgentMessage {
        return 0;
    }
    let length = |part: &TextPart| if let TextPart::Text(text) = part { text.chars().count() } else { 0 };
    readable_update(update).map_or(0, |passage| passage.parts.iter().map(length).sum())
}
