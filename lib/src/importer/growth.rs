//! Goes on with a session whose source has grown since it was imported: the events that it has already are compared by
//! their hash and passed over, and the turns that follow are appended. A session that had turns here in the meantime, and a
//! source that was rewound, stay as they are.

use rethread_core::{Session, SessionId, TitleSource};

use super::import::{EventStream, SourceOutcome, Stored};
use super::reader::{SessionSource, ToolInfo};
use super::recorder::Recorder;
use super::sink::{ReadEvent, SessionFacts};
use super::storing::finish_turn;
use crate::clock;
use crate::session_file::writer::{SessionWriter, WrittenRow};
use crate::store::{Deleted, ImportRecord, RowFacts, SessionRow, Store, StoreError, read_state};

/// Appends what is new in a source to its session.
pub(super) async fn grow(
    store: &dyn Store,
    tool: &'static ToolInfo,
    source: &SessionSource,
    record: &ImportRecord,
    session: SessionId,
    facts: &SessionFacts,
    mut events: EventStream,
) -> Result<Stored, StoreError> {
    let same = |outcome| Stored { session: Some(session.clone()), ..Stored::none(outcome) };
    let (state, row) = match read_state(store, &session).await {
        Ok((_, row)) if row.deleted == Deleted::Yes => return Ok(same(SourceOutcome::DeletedHere)),
        Ok(found) => found,
        Err(StoreError::Unknown(_)) => return Ok(same(SourceOutcome::DeletedHere)),
        Err(error) => return Err(error),
    };
    if state.turns.0 != record.turns || state.turn.is_some() || row.owner.is_some() {
        return Ok(same(SourceOutcome::Diverged));
    }
    let mut recorder = Recorder::resume(state.clone(), 0, clock::now());
    let Some(first) = pass(&mut recorder, record, &mut events).await else {
        return Ok(same(SourceOutcome::Rewritten));
    };
    let unchanged =
        Stored { turns: record.turns, mark: recorder.complete().clone(), ..same(SourceOutcome::Unchanged) };
    let Some(first) = first else { return Ok(unchanged) };
    let growing = Growing { store, tool, source, facts, row, state };
    match growing.append(recorder, first, events).await {
        Ok(stored) => Ok(stored.unwrap_or(unchanged)),
        Err(StoreError::LiveElsewhere { .. } | StoreError::MovedOn { .. }) => {
            Ok(same(SourceOutcome::Diverged))
        }
        Err(error) => Err(error),
    }
}

/// Passes over the events that are stored. Returns the first new one, if there is one; nothing if the events are not the
/// same any more.
async fn pass(
    recorder: &mut Recorder,
    record: &ImportRecord,
    events: &mut EventStream,
) -> Option<Option<ReadEvent>> {
    while recorder.complete().events < record.events {
        recorder.pass(&events.next().await?);
    }
    if recorder.complete().hash[..] != record.hash[..] {
        return None;
    }
    Some(events.next().await)
}

/// A session that grows.
struct Growing<'a> {
    store: &'a dyn Store,
    tool: &'static ToolInfo,
    source: &'a SessionSource,
    facts: &'a SessionFacts,
    row: SessionRow,
    state: Session,
}

impl Growing<'_> {
    /// Appends the rest of the events. Returns nothing if there is nothing to append.
    async fn append(
        self,
        mut recorder: Recorder,
        first: ReadEvent,
        mut events: EventStream,
    ) -> Result<Option<Stored>, StoreError> {
        let lease = self.store.claim(&self.row.id).await?;
        if lease.head != self.row.head {
            let (expected, found) = (self.row.head, lease.head);
            self.store.release(&lease).await?;
            return Err(StoreError::MovedOn { session: self.row.id, expected, found });
        }
        let known = recorder.known().clone();
        let before = self.state.turns.0;
        let row = WrittenRow {
            id: self.row.id.clone(),
            cwd: self.row.cwd.clone(),
            agent: self.row.agent.clone(),
            facts: RowFacts::default(),
            at: self.row.updated_at,
        };
        let mut writer = SessionWriter::resume(self.store, row, lease, self.state.clone(), known);
        for entry in recorder.go_on(self.tool, &self.facts.native) {
            writer.entry(entry).await?;
        }
        let mut next = Some(first);
        while let Some(event) = next {
            for entry in recorder.add(event) {
                writer.entry(entry).await?;
            }
            next = events.next().await;
        }
        if !events.is_whole {
            writer.abandon().await?;
            return Ok(None);
        }
        let rest = finish_turn(&mut recorder, &mut writer, self.source.modified).await?;
        let turns = writer.session().turns.0;
        if turns == before {
            // Only the beginning of a turn, or nothing that is part of one.
            writer.abandon().await?;
            let outcome = Stored { rest, ..self.as_it_was(&recorder, turns) };
            return Ok(Some(outcome));
        }
        for entry in recorder.closing(writer.session(), self.tool) {
            writer.write(entry).await?;
        }
        let is_ours = |row: &SessionRow| matches!(row.title, Some((_, TitleSource::User)));
        let title = self.facts.title.clone().filter(|_| !is_ours(&self.row));
        let mark = recorder.complete().clone();
        let at = Some(recorder.last()).filter(|at| *at > self.row.updated_at);
        writer.finish_at(RowFacts { title, ..RowFacts::default() }, at).await?;
        let outcome = SourceOutcome::Grown(turns - before);
        Ok(Some(Stored { session: Some(self.row.id), outcome, turns, mark, rest }))
    }

    fn as_it_was(&self, recorder: &Recorder, turns: u64) -> Stored {
        let session = Some(self.row.id.clone());
        let mark = recorder.complete().clone();
        Stored { session, turns, mark, ..Stored::none(SourceOutcome::Unchanged) }
    }
}
