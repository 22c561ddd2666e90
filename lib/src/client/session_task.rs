//! The task of one open session at a client: decodes what the agent sends and hands it to the handler, and completes the
//! calls of the session in order with the events.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rethread_core::{Json, PromptStyle, QuestionId, QuestionKind, SessionId, Stop};
use tokio::sync::{mpsc, oneshot};

use super::SessionEvent;
use super::decoder::{Decoded, SessionDecoder};
use super::error::ClientError;
use super::handler::{AgentRequest, AskedQuestion, ClientHandler};
use super::open_turns::OpenTurns;
use crate::agent::peer::{AgentLine, AgentPeer, FromAgent};
use crate::edge::agent_translator::outgoing::{cancelled_answer, prompt_outcome};
use crate::edge::dialect::OpenQuestions;
use crate::ids;
use crate::lock::locked;
use crate::wire::{Id, RpcError, code};

/// How many events of this client itself may wait for the handler.
const LOCAL_EVENTS: usize = 64;

/// Receives the answer to a call.
pub(super) type Answer = oneshot::Sender<Result<Json, ClientError>>;
/// Receives the end of a turn.
pub(super) type TurnEnd = oneshot::Sender<Result<Stop, ClientError>>;

/// What calls and questions of a session share with its task.
#[derive(Clone)]
pub(super) struct SessionLink {
    pub(super) peer: AgentPeer,
    pub(super) state: Arc<Mutex<SessionState>>,
    local: mpsc::Sender<SessionEvent>,
}

/// The state of an open session.
pub(super) struct SessionState {
    pub(super) decoder: SessionDecoder,
    pub(super) calls: HashMap<u64, SessionCall>,
    questions: HashMap<QuestionId, (Id, QuestionKind)>,
    pub(super) turns: OpenTurns<TurnEnd>,
}

/// A call that waits for its answer.
pub(super) enum SessionCall {
    /// New, load, resume or fork.
    Open(Answer),
    /// A prompt, which is among the open turns.
    Prompt,
    /// A change of an option.
    SetOption { option: String, value: Json, answer: Answer },
    /// Any other request.
    Plain(Answer),
}

impl SessionLink {
    pub(super) fn new(peer: AgentPeer, decoder: SessionDecoder) -> (Self, mpsc::Receiver<SessionEvent>) {
        let state = SessionState {
            decoder,
            calls: HashMap::new(),
            questions: HashMap::new(),
            turns: OpenTurns::default(),
        };
        let (local, events) = mpsc::channel(LOCAL_EVENTS);
        (Self { peer, state: Arc::new(Mutex::new(state)), local }, events)
    }

    /// Shows an event of this client itself. Fails only when the session has ended.
    pub(super) async fn show(&self, event: SessionEvent) {
        let _ = self.local.send(event).await;
    }

    /// Answers a question, if it is open.
    pub(super) async fn answer(&self, question: &QuestionId, kind: QuestionKind, answer: &Json) {
        if self.answer_now(question, kind, answer) {
            self.show(SessionEvent::Settled { question: question.clone() }).await;
        }
    }

    /// Answers a question without showing it. Returns whether it was open.
    pub(super) fn answer_now(&self, question: &QuestionId, kind: QuestionKind, answer: &Json) -> bool {
        let mut state = locked(&self.state);
        let Some((request, _)) = state.questions.remove(question) else { return false };
        let answer = state.decoder.translator().answer(kind, answer);
        // An agent that has ended needs no answer.
        let _ = self.peer.answer(&request, Ok(&answer));
        true
    }

    /// Answers all open questions as cancelled, if that is the client's duty.
    pub(super) async fn cancel_questions(&self) {
        let open: Vec<_> = {
            let state = locked(&self.state);
            match state.decoder.dialect().open_questions {
                OpenQuestions::WithdrawnByAgent => Vec::new(),
                OpenQuestions::AnsweredByClient => {
                    state.questions.iter().map(|(id, (_, kind))| (id.clone(), *kind)).collect()
                }
            }
        };
        for (question, kind) in open {
            self.answer(&question, kind, &cancelled_answer(kind)).await;
        }
    }
}

/// The task of a session.
pub(super) struct ClientSessionTask<H> {
    id: Option<SessionId>,
    peer: AgentPeer,
    /// Without a sender of local events, so that the task ends with the last handle.
    state: Arc<Mutex<SessionState>>,
    local_sender: mpsc::WeakSender<SessionEvent>,
    handler: Arc<H>,
    /// What came before the id of a new session was known.
    early: Vec<SessionEvent>,
}

impl SessionLink {
    /// The task of this session; `id` is not known before a new session is opened.
    pub(super) fn task<H>(&self, id: Option<SessionId>, handler: Arc<H>) -> ClientSessionTask<H> {
        let local_sender = self.local.downgrade();
        let (peer, state) = (self.peer.clone(), self.state.clone());
        ClientSessionTask { id, peer, state, local_sender, handler, early: Vec::new() }
    }
}

impl<H: ClientHandler> ClientSessionTask<H> {
    /// Runs until the agent ends or all handles are dropped.
    pub(super) async fn run(
        mut self,
        mut local: mpsc::Receiver<SessionEvent>,
        mut from_agent: mpsc::Receiver<FromAgent>,
    ) {
        loop {
            // What this client did comes first: it caused what the agent sends.
            let lines = tokio::select! {
                biased;
                event = local.recv() => match event {
                    Some(event) => {
                        self.event(event).await;
                        continue;
                    }
                    None => return,
                },
                lines = from_agent.recv() => lines,
            };
            match lines {
                Some(FromAgent::Lines(lines)) => self.lines(lines).await,
                Some(FromAgent::Gone(reason)) => return self.gone(&reason),
                None => return,
            }
        }
    }

    async fn lines(&mut self, lines: Vec<AgentLine>) {
        let mut batch = Vec::new();
        for line in lines {
            match line {
                AgentLine::Message(bytes) => batch.push(bytes),
                AgentLine::Answered { request, outcome } => {
                    self.messages(&std::mem::take(&mut batch)).await;
                    self.answered(request, outcome).await;
                }
            }
        }
        self.messages(&batch).await;
    }

    async fn messages(&mut self, lines: &[bytes::Bytes]) {
        let decoded = locked(&self.state).decoder.lines(lines.iter().map(|line| &line[..]));
        for decoded in decoded {
            match decoded {
                Decoded::Event(event) => self.event(event).await,
                Decoded::Question { request, kind, body } => self.question(request, kind, body).await,
                Decoded::Relay { request, method, params } => self.relay(request, method, params).await,
                Decoded::Withdrawn { request } => self.withdrawn(&request).await,
            }
        }
    }

    async fn event(&mut self, event: SessionEvent) {
        let Some(id) = &self.id else {
            self.early.push(event);
            return;
        };
        self.handler.event(id, &event).await;
        let ended = locked(&self.state).turns.see(&event);
        for (turn, stop) in ended {
            let _ = turn.send(Ok(stop));
        }
    }

    async fn question(&mut self, request: Id, kind: QuestionKind, body: Json) {
        let (Some(session), Some(local)) = (self.id.clone(), self.local_sender.upgrade()) else { return };
        let id = ids::question_id();
        locked(&self.state).questions.insert(id.clone(), (request, kind));
        self.event(SessionEvent::Asked { question: id.clone(), kind, body: body.clone() }).await;
        let link = Some(SessionLink { peer: self.peer.clone(), state: self.state.clone(), local });
        self.handler.question(AskedQuestion { session, id, kind, body, link }).await;
    }

    async fn relay(&mut self, request: Option<Id>, method: String, params: Json) {
        match request {
            Some(id) => {
                let reply = Some((self.peer.clone(), id));
                self.handler.request(AgentRequest { session: self.id.clone(), method, params, reply }).await;
            }
            None => self.handler.notification(self.id.as_ref(), &method, &params).await,
        }
    }

    async fn withdrawn(&mut self, request: &Id) {
        let question = {
            let mut state = locked(&self.state);
            let found = state.questions.iter().find(|(_, (open, _))| open == request);
            let question = found.map(|(question, _)| question.clone());
            question.inspect(|question| {
                state.questions.remove(question);
            })
        };
        if let Some(question) = question {
            // The request is answered all the same.
            let _ = self.peer.answer(request, Err(&RpcError::cancelled()));
            self.event(SessionEvent::Settled { question }).await;
        }
    }

    async fn answered(&mut self, request: u64, outcome: Result<Json, RpcError>) {
        let Some(call) = locked(&self.state).calls.remove(&request) else { return };
        match call {
            SessionCall::Plain(answer) => drop(answer.send(outcome.map_err(ClientError::from))),
            SessionCall::Open(answer) => {
                if let Ok(result) = &outcome {
                    self.opened(result).await;
                }
                let _ = answer.send(outcome.map_err(ClientError::from));
            }
            SessionCall::SetOption { option, value, answer } => {
                if let Ok(result) = &outcome {
                    let event = locked(&self.state).decoder.option_set(&option, &value, result);
                    self.event(event).await;
                }
                let _ = answer.send(outcome.map_err(ClientError::from));
            }
            SessionCall::Prompt => self.prompt_answered(request, outcome).await,
        }
    }

    async fn opened(&mut self, answer: &Json) {
        if self.id.is_none() {
            self.id = answer.fields().text("sessionId").map(SessionId);
        }
        let mut events = std::mem::take(&mut self.early);
        events.extend(locked(&self.state).decoder.opened(answer));
        for event in events {
            self.event(event).await;
        }
    }

    async fn prompt_answered(&mut self, request: u64, outcome: Result<Json, RpcError>) {
        let events = locked(&self.state).decoder.prompt_answered(outcome.as_ref());
        for event in &events {
            self.event(event.clone()).await;
        }
        let mut state = locked(&self.state);
        let end = match (state.decoder.dialect().prompts, outcome) {
            (PromptStyle::Acknowledged, Ok(result)) => {
                return state.turns.acknowledged(request, result.fields().text("messageId"));
            }
            (_, Err(error)) if error.code != code::CANCELLED => Err(error.into()),
            (_, outcome) => Ok(prompt_outcome(outcome.as_ref()).0),
        };
        if let Some(turn) = state.turns.take(request) {
            let _ = turn.send(end);
        }
    }

    /// Fails what is open. The connection reports the end to the handler.
    fn gone(&mut self, reason: &str) {
        let mut state = locked(&self.state);
        for turn in state.turns.take_all() {
            let _ = turn.send(Err(ClientError::Refused(RpcError::internal(reason))));
        }
        for (_, call) in state.calls.drain() {
            match call {
                SessionCall::Open(answer)
                | SessionCall::SetOption { answer, .. }
                | SessionCall::Plain(answer) => {
                    let _ = answer.send(Err(ClientError::Refused(RpcError::internal(reason))));
                }
                SessionCall::Prompt => {}
            }
        }
        state.questions.clear();
    }
}
