//! The calls about sessions that are not open at this client: list, new, load, resume, fork, delete, archive.

use rethread_core::{Fields, Json, SessionId};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::AcpClient;
use super::decoder::SessionDecoder;
use super::error::ClientError;
use super::handler::ClientHandler;
use super::session::{ClientSession, SharedSession};
use super::session_task::{SessionCall, SessionLink};
use crate::edge::agent_translator::outgoing::{check_servers, check_system_prompt, open_params};
use crate::edge::client_request::{ArchivedParam, ReplayFrom, Setup};
use crate::edge::dialect::ReplayRequest;
use crate::lock::locked;

/// How many batches of lines of an agent may wait for a session.
const BATCHES: usize = 4;

/// One page of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    /// The sessions in the order of the agent.
    pub sessions: Vec<ListedSession>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedSession {
    /// Its id.
    pub id: SessionId,
    /// Its working directory.
    pub cwd: String,
    /// Its title.
    pub title: Option<String>,
    /// When it last changed, in RFC 3339.
    pub updated_at: Option<String>,
    /// All that the agent says of it.
    pub fields: Fields,
}

impl<H: ClientHandler> AcpClient<H> {
    /// Reads one page of the list of sessions.
    pub async fn list(
        &self,
        cwd: Option<&str>,
        cursor: Option<&str>,
        archived: ArchivedParam,
    ) -> Result<SessionPage, ClientError> {
        self.require("list", "session/list")?;
        let mut params = Fields::new();
        if let Some(cwd) = cwd {
            params.set("cwd", Json::of(cwd));
        }
        if let Some(cursor) = cursor {
            params.set("cursor", Json::of(cursor));
        }
        match archived {
            ArchivedParam::Exclude => {}
            ArchivedParam::Include => params.set("archived", Json::of("include")),
            ArchivedParam::Only => params.set("archived", Json::of("only")),
        }
        if archived != ArchivedParam::Exclude {
            self.require("archive", "a list of archived sessions")?;
        }
        let answer = self.request("session/list", &params.json()).await?.fields();
        let sessions = answer.get("sessions").and_then(Json::items).unwrap_or_default();
        Ok(SessionPage {
            sessions: sessions.iter().filter_map(listed).collect(),
            next: answer.text("nextCursor"),
        })
    }

    /// Creates a session and opens it.
    pub async fn new_session(&self, setup: &Setup) -> Result<ClientSession, ClientError> {
        self.open("session/new", setup, None, None).await
    }

    /// Opens a session that exists, and replays as much of it as asked for before this returns.
    pub async fn attach(
        &self,
        session: &SessionId,
        setup: &Setup,
        replay: &ReplayFrom,
    ) -> Result<ClientSession, ClientError> {
        let by_resume = self.version().agent_dialect().replay == ReplayRequest::Resume;
        let (method, from) = match replay {
            ReplayFrom::Start if !by_resume => ("session/load", None),
            ReplayFrom::Start => ("session/resume", Some(json!({"type": "start"}))),
            ReplayFrom::Nothing => ("session/resume", None),
            ReplayFrom::Message(message) if by_resume => {
                ("session/resume", Some(json!({"type": "_message", "messageId": message})))
            }
            ReplayFrom::Message(_) => {
                return Err(ClientError::NotOffered("a replay from a message".to_owned()));
            }
            // Only hosts say this to each other.
            ReplayFrom::After(_) => return Err(ClientError::NotOffered("a replay from an entry".to_owned())),
        };
        self.require(method.trim_start_matches("session/"), method)?;
        self.open(method, setup, Some(session), from.map(Json::from)).await
    }

    /// Forks a session and opens the fork. It ends after `at`, or after the last finished turn.
    pub async fn fork(
        &self,
        session: &SessionId,
        setup: &Setup,
        at: Option<&str>,
    ) -> Result<ClientSession, ClientError> {
        self.require("fork", "session/fork")?;
        let mut setup = setup.clone();
        if let Some(at) = at {
            setup.meta = Some(json!({"rethread": {"atMessage": at}}).into());
        }
        self.open("session/fork", &setup, Some(session), None).await
    }

    /// Deletes a session.
    pub async fn delete(&self, session: &SessionId) -> Result<(), ClientError> {
        self.require("delete", "session/delete")?;
        self.about(session, "session/delete").await.map(drop)
    }

    /// Archives a session: it is kept, and hidden from lists.
    pub async fn archive(&self, session: &SessionId) -> Result<(), ClientError> {
        self.require("archive", "session/archive")?;
        self.about(session, "session/archive").await.map(drop)
    }

    /// Takes a session out of the archive.
    pub async fn unarchive(&self, session: &SessionId) -> Result<(), ClientError> {
        self.require("archive", "session/unarchive")?;
        self.about(session, "session/unarchive").await.map(drop)
    }

    /// Asks whether a session is live, and where.
    pub async fn status(&self, session: &SessionId) -> Result<Json, ClientError> {
        self.require("status", "session/status")?;
        self.about(session, "session/status").await
    }

    /// Sets the title of a session.
    pub async fn set_title(&self, session: &SessionId, title: &str) -> Result<(), ClientError> {
        self.require("title", "session/set_title")?;
        let params = json!({"sessionId": session.0, "title": title});
        self.request("session/set_title", &params.into()).await.map(drop)
    }

    async fn about(&self, session: &SessionId, method: &str) -> Result<Json, ClientError> {
        self.request(method, &json!({"sessionId": session.0}).into()).await
    }

    async fn open(
        &self,
        method: &'static str,
        setup: &Setup,
        session: Option<&SessionId>,
        replay_from: Option<Json>,
    ) -> Result<ClientSession, ClientError> {
        check_servers(self.profile(), &setup.servers)?;
        check_system_prompt(self.profile(), setup)?;
        let mut params = open_params(self.profile(), setup, session.map(|id| id.0.as_str())).fields();
        if let Some(from) = replay_from {
            params.set("replayFrom", from);
        }
        // A fork has an id of its own, which is in the answer.
        let known = session.filter(|_| method != "session/fork");
        let (route, lines) = mpsc::channel(BATCHES);
        let (link, local) = SessionLink::new(self.peer().clone(), SessionDecoder::new(self.version()));
        if let Some(id) = known {
            self.peer().route(&id.0, &route)?;
        }
        tokio::spawn(link.task(known.cloned(), self.handler.clone()).run(local, lines));
        let mut handle = SharedSession::new(link, route, self.agent.profile.clone(), known.cloned());
        let (answer, answered) = oneshot::channel();
        {
            let mut state = locked(&handle.link.state);
            let request = match known {
                Some(_) => self.peer().request(method, &params.json(), &handle.route)?,
                None => self.peer().open(method, &params.json(), &handle.route)?,
            };
            state.calls.insert(request, SessionCall::Open(answer));
        }
        let answer = answered.await.map_err(|_| ClientError::Ended(method.to_owned()))??;
        if handle.id.is_none() {
            handle.id = answer.fields().text("sessionId").map(SessionId);
        }
        ClientSession::opened(handle, answer)
    }
}

fn listed(session: &Json) -> Option<ListedSession> {
    let fields = session.fields();
    Some(ListedSession {
        id: SessionId(fields.text("sessionId")?),
        cwd: fields.text("cwd").unwrap_or_default(),
        title: fields.text("title"),
        updated_at: fields.text("updatedAt"),
        fields,
    })
}
