//! Adopts sessions that only the agent has: stores the history that it replays when a client opens one, and lists them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rethread_core::{
    Binding, Entry, Input, JournalBuilder, Json, Origin, Session, SessionId, clean_title, stored,
};
use serde_json::json;

use super::Registry;
use crate::agent::host::{AgentHost, LiveAgent};
use crate::agent::peer::{AgentLine, FromAgent};
use crate::agent::pool::SharedHost;
use crate::clock;
use crate::edge::Version;
use crate::edge::agent_translator::{AgentEvent, AgentTranslator, id_hash, outgoing};
use crate::edge::client_request::Setup;
use crate::edge::dialect::ReplayRequest;
use crate::edge::params::MAX_PATH_BYTES;
use crate::live_session::{
    AgentLines, AgentSlot, Bound, Handle, QUIET, Replaying, SessionStart, store_error,
};
use crate::store::facts::facts;
use crate::store::{AgentName, Listed, NewSession, Stub};
use crate::wire::RpcError;

/// How many pages of an agent's own list are read.
const PAGES: usize = 40;
/// How long an agent that has answered may take to begin its replay.
const SLOW_START: Duration = Duration::from_secs(1);
/// The longest id of a session of an agent's own list, in bytes.
const LONGEST_ID: usize = 1024;

impl Registry {
    /// Takes in a session that only the agent knows: it replays, and that becomes the journal. A session that somebody
    /// else took in meanwhile is opened.
    pub(crate) async fn adopt(
        &self,
        host: &SharedHost,
        agent: LiveAgent,
        id: &SessionId,
        setup: Setup,
    ) -> Result<Handle, RpcError> {
        let _turn = self.turns.take(id).await;
        if let Some(handle) = self.find_settled(id).await {
            return Ok(handle);
        }
        match self.open_stored(id, host).await? {
            Some(handle) => Ok(handle),
            None => self.take_in(host, agent, id, setup).await,
        }
    }

    async fn take_in(
        &self,
        host: &SharedHost,
        agent: LiveAgent,
        id: &SessionId,
        setup: Setup,
    ) -> Result<Handle, RpcError> {
        let unknown = || RpcError::unknown_session(id.as_str());
        let mut lines = AgentLines::new();
        let (answer, said) = restore(&agent, id, &setup, &mut lines).await.map_err(|_| unknown())?;
        let name = host.identity(&agent);
        let row = self.row(id).await.ok();
        let mut journal = JournalBuilder::new(Origin {
            cwd: setup.cwd.clone(),
            roots: setup.roots.clone(),
            agent: name.clone(),
            title: row.as_ref().and_then(|row| row.title.clone()),
            at: clock::now(),
        });
        let ids = add_replay(&mut journal, agent.profile.version, &said);
        // Some agents load anything and have nothing: that is no session.
        if !journal.has_conversation() && row.is_none() {
            agent.peer.remove_route(id.as_str(), &lines.route);
            return Err(unknown());
        }
        // What it replayed was said by an earlier process: this one must not overwrite it.
        let mut translator = AgentTranslator::new(agent.profile.version, 2, ids);
        for update in translator.decode_open_answer(&answer) {
            journal.add(update, None);
        }
        let native = id.0.clone();
        let bound = Input::AgentBound {
            agent: name.clone(),
            native: native.clone(),
            binding: Binding::Loaded,
            style: translator.dialect().prompts,
            kind: host.kind(),
            at: clock::now(),
        };
        let (session, entries) = finish_bound(journal, bound);
        let mut facts = facts(entries.iter());
        facts.listed = Some(Listed);
        facts.agent_name = Some(AgentName(host.configured_name()));
        let new = NewSession {
            id: id.clone(),
            cwd: setup.cwd.clone(),
            agent: name,
            parent: None,
            facts,
            entries: entries.into_iter().map(Arc::new).collect(),
            snapshot: Some(stored::encode_session(&session)),
            at: clock::now(),
        };
        let lease = self.store().create(new).await.map_err(|e| store_error(&e))?;
        let slot =
            AgentSlot::Bound(Box::new(Bound { agent, translator, native, replaying: Replaying::Maybe }));
        let (id, host) = (id.clone(), host.user());
        Ok(self.start(SessionStart { id, session, lease, setup, host, fork_of: None, slot, lines }))
    }

    /// Reads what the agent lists as its own, so that our list has it too.
    pub(crate) async fn learn_natives(&self, host: &AgentHost, agent: &LiveAgent) {
        if !agent.profile.has("list") {
            return;
        }
        let name = host.identity(agent);
        let mut cursor: Option<Json> = None;
        for _ in 0..PAGES {
            let params = cursor.take().map_or_else(
                || json!({}).into(),
                |cursor| [("cursor", cursor)].into_iter().collect::<rethread_core::Fields>().json(),
            );
            // An agent that cannot list now is asked again at its next start.
            let Ok(page) = agent.peer.call("session/list", &params).await else { return };
            let page = page.fields();
            let stubs: Vec<_> = page.get("sessions").and_then(Json::items).unwrap_or_default();
            let stubs: Vec<_> = stubs.iter().filter_map(stub).collect();
            let agent_name = name.clone();
            let added = self.store().add_stubs(&agent_name, &stubs).await;
            if let Err(error) = added {
                tracing::warn!(
                    "the agent's own sessions could not be stored: {}",
                    crate::wire::with_causes(&error)
                );
                return;
            }
            cursor = page.get("nextCursor").filter(|cursor| !cursor.is_null()).cloned();
            if cursor.is_none() {
                return;
            }
        }
    }
}

/// Adds what an agent replayed to a journal. Returns the hashes of the ids that it used.
fn add_replay(journal: &mut JournalBuilder, version: Version, said: &[Bytes]) -> HashSet<u64> {
    let mut replay = AgentTranslator::new(version, 1, HashSet::new());
    let mut ids = HashSet::new();
    for event in replay.decode_lines(said.iter().map(|line| &line[..]), clock::now()) {
        if let AgentEvent::Input(Input::Updated { update, .. }) = event {
            if !update.id.is_empty() {
                ids.insert(id_hash(&update.id));
            }
            journal.add(update, None);
        }
    }
    ids
}

/// Finishes a journal with the agent bound to its session.
fn finish_bound(journal: JournalBuilder, bound: Input) -> (Session, Vec<Entry>) {
    let (mut session, mut entries) = journal.finish();
    for entry in rethread_core::decide(&session, bound).unwrap_or_default() {
        session.apply(&entry);
        entries.push(entry);
    }
    (session, entries)
}

/// A session of the agent's own list, unless its id or its directory is one that no client could name.
fn stub(info: &Json) -> Option<Stub> {
    let fields = info.fields();
    let usable = |text: &String, longest| text.len() <= longest && !text.contains('\0');
    Some(Stub {
        id: SessionId(fields.text("sessionId").filter(|id| usable(id, LONGEST_ID))?),
        cwd: fields.text("cwd").filter(|cwd| usable(cwd, MAX_PATH_BYTES))?,
        title: fields.text("title").map(|title| clean_title(&title)).filter(|title| !title.is_empty()),
        // A time in the future would keep the session at the top of lists.
        updated_at: fields
            .text("updatedAt")
            .and_then(|at| clock::from_rfc3339(&at))
            .unwrap_or(0)
            .min(clock::now()),
    })
}

async fn restore(
    agent: &LiveAgent,
    id: &SessionId,
    setup: &Setup,
    lines: &mut AgentLines,
) -> Result<(Json, Vec<Bytes>), RpcError> {
    let mut params = outgoing::open_params(&agent.profile, setup, Some(id.as_str())).fields();
    let method = match agent.profile.version.agent_dialect().replay {
        ReplayRequest::Load if agent.profile.has("load") => "session/load",
        ReplayRequest::Load => return Err(RpcError::unknown_session(id.as_str())),
        ReplayRequest::Resume => {
            params.set("replayFrom", json!({"type": "start"}).into());
            "session/resume"
        }
    };
    agent.peer.route_asked(id.as_str(), &lines.route)?;
    let sent = agent.peer.request(method, &params.json(), &lines.route);
    let request = sent.map_err(|error| RpcError::internal(error.to_string()))?;
    let outcome = replayed(agent, lines, request).await;
    let outcome =
        outcome.and_then(|restored| Ok(agent.peer.route(id.as_str(), &lines.route).map(|()| restored)?));
    if outcome.is_err() {
        agent.peer.remove_route(id.as_str(), &lines.route);
    }
    outcome
}

/// How long an agent that has answered is waited for: one that has replayed nothing yet may be slow to begin, and what it
/// says too late is lost for ever.
fn wait_for_more(said: &[Bytes]) -> Duration {
    if said.is_empty() { SLOW_START } else { QUIET }
}

/// The agent's answer, and what it said before it and right behind it: some replay only then.
async fn replayed(
    agent: &LiveAgent,
    lines: &mut AgentLines,
    request: u64,
) -> Result<(Json, Vec<Bytes>), RpcError> {
    let (mut answer, mut said) = (None, Vec::new());
    loop {
        let next = match &answer {
            None => lines.lines.recv().await,
            Some(answer) => match tokio::time::timeout(wait_for_more(&said), lines.lines.recv()).await {
                Ok(next) => next,
                Err(_) => return Ok((Json::clone(answer), said)),
            },
        };
        let batch = match next {
            Some(FromAgent::Lines(batch)) => batch,
            Some(FromAgent::Gone(reason)) => return Err(RpcError::internal(reason)),
            None => return Err(RpcError::internal("the agent exited before it restored the session")),
        };
        for line in batch {
            match line {
                AgentLine::Answered { request: answered, outcome } if answered == request => {
                    answer = Some(outcome?);
                }
                AgentLine::Answered { .. } => {}
                AgentLine::Message(line) => {
                    // No client follows the session yet.
                    agent.peer.refuse(&line);
                    said.push(line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_lists_is_made_fit_for_our_list() {
        let listed = |id: &str, cwd: &str, title: &str| {
            let info =
                json!({"sessionId": id, "cwd": cwd, "title": title, "updatedAt": "9999-01-01T00:00:00Z"});
            stub(&info.into())
        };
        let fit = listed("s", "/w", "\u{1b}[31mred\u{202e}\n line").expect("a session");
        assert_eq!(fit.title.as_deref(), Some("red line"));
        assert!(fit.updated_at <= clock::now(), "nothing was changed in a time to come");
        assert_eq!(listed("s", "/w", "\0").expect("a session").title, None);
        assert_eq!(listed("s", "/w\0", ""), None);
        assert_eq!(listed("s", &format!("/{}", "w".repeat(5000)), ""), None);
        assert_eq!(listed(&"s".repeat(5000), "/w", ""), None);
    }
}
