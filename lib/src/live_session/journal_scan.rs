//! Reads the journal for an agent that opens the session: the ids in use, the history or the transcript to give it, and
//! whether its own replay is complete.

use std::collections::HashSet;

use rethread_core::stored::{ItemSort, Stored, StoredError};
use rethread_core::{Binding, Entry, Json, Seq, Subject, TextPart, Update, readable_update};

use super::LiveSession;
use crate::agent::host::LiveAgent;
use crate::edge::agent_translator::id_hash;
use crate::history::ConversationHistory;
use crate::seed::{self, Transcript};
use crate::store::StoreError;

/// How much of the journal is read at once.
const PAGE: usize = 1024 * 1024;

impl LiveSession {
    /// Every id that is in use before a new generation of the agent speaks.
    pub(super) async fn older_ids(&self) -> Result<HashSet<u64>, StoreError> {
        if self.session.generations == 0 {
            return Ok(HashSet::new());
        }
        self.gather(HashSet::new(), |ids, item| {
            if item.sort() != ItemSort::Any {
                return Ok(());
            }
            let entry = item.entry()?;
            if let Entry::Updated { update, .. } = &*entry
                && !update.id.is_empty()
            {
                ids.insert(id_hash(&update.id));
            } else if let Entry::PromptInserted { message, .. } = &*entry {
                // A prompt of a session that was taken in from an agent has the agent's id.
                ids.insert(id_hash(message.as_str()));
            }
            Ok(())
        })
        .await
    }

    /// The whole conversation, for an agent that keeps none.
    pub(super) async fn history(&self, agent: &LiveAgent) -> Result<Vec<Json>, StoreError> {
        let host = &self.agent.host;
        let empty = ConversationHistory::for_agent(host.identity(agent), host.kind());
        let mut history = self
            .gather(empty, |history, item| {
                history.add(&item.folded()?);
                Ok(())
            })
            .await?;
        Ok(history.list())
    }

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
        let transcript = self
            .gather(Transcript::default(), |transcript, item| {
                transcript.add(&item.folded()?);
                Ok(())
            })
            .await?;
        self.agent.seed = transcript.write(seed::BUDGET);
        Ok(())
    }

    async fn compare_replay(&self, replayed: usize) -> Result<(), StoreError> {
        let kept = self
            .gather(0, |kept, item| {
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

    /// Reads the whole journal, item by item, and gives what was gathered of it.
    async fn gather<G>(
        &self,
        mut gathered: G,
        add: impl Fn(&mut G, Stored<'_>) -> Result<(), StoredError>,
    ) -> Result<G, StoreError> {
        let mut from = Seq(0);
        loop {
            let page = self.deps.store.read(&self.id, from, PAGE).await?;
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
