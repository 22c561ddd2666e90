//! A version 2 client on the SDK.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::{MaybeUndefined, ProtocolVersion};
use agent_client_protocol::v2::schema::*;
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Error, Result, on_receive_notification, on_receive_request};
use tokio::sync::watch;

use super::tap::Transport;
use super::view::{View, changed_by};
use super::{CWD, within};

/// What the client has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) view: View,
    pub(crate) updates: usize,
    pub(crate) asked: usize,
    pub(crate) notices: usize,
    pub(crate) usage: Option<u64>,
    pub(crate) commands: Vec<String>,
    pub(crate) title: Option<String>,
    states: Vec<StateUpdate>,
    calls: Vec<ToolCallUpdate>,
}

/// Makes a session, works in it, closes it. Gives its id.
pub(crate) async fn converse(transport: Transport) -> (String, Seen) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    connect(transport, seen.clone(), async |agent, mut grown| {
        initialize(&agent).await?;
        let made = agent.send_request(NewSessionRequest::new(CWD)).block_task().await?;
        let session = made.session_id;
        assert_eq!(current(&made.config_options, SessionConfigOptionCategory::Mode), "ask");
        assert_eq!(current(&made.config_options, SessionConfigOptionCategory::ThoughtLevel), "low");

        let set =
            set(&agent, &session, option_id(&made.config_options, SessionConfigOptionCategory::Mode), "code");
        assert_eq!(current(&set.await?.config_options, SessionConfigOptionCategory::Mode), "code");
        let effort = option_id(&made.config_options, SessionConfigOptionCategory::ThoughtLevel);
        let set = self::set(&agent, &session, effort, "high").await?;
        assert_eq!(current(&set.config_options, SessionConfigOptionCategory::ThoughtLevel), "high");
        assert_eq!(current(&set.config_options, SessionConfigOptionCategory::Mode), "code");

        prompt(&agent, &session, "work").await?;
        let stop = idle(&seen, &mut grown).await?;
        assert_eq!(stop, Some(StopReason::EndTurn));
        prompt(&agent, &session, "wait").await?;
        let waiting = |seen: &Seen| seen.view.last("agent") == Some("waiting");
        while !waiting(&seen.lock().unwrap()) {
            grown.changed().await.map_err(Error::into_internal_error)?;
        }
        agent.send_notification(CancelSessionNotification::new(session.clone()))?;
        assert_eq!(idle(&seen, &mut grown).await?, Some(StopReason::Cancelled));

        let list = agent.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(list.sessions.len(), 1, "{list:?}");
        assert_eq!(list.sessions[0].session_id, session);
        assert_eq!(list.sessions[0].title.as_deref(), Some("work"));
        agent.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        Ok(session.to_string())
    })
    .await
}

/// Resumes a session from its start on a new connection, and closes it.
pub(crate) async fn look_again(transport: Transport, session: &str) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (_, seen) = connect(transport, seen, async |agent, _| {
        initialize(&agent).await?;
        let resume = ResumeSessionRequest::new(session.to_owned(), CWD)
            .replay_from(ReplayFrom::Start(ReplayFromStart::new()));
        let resumed = agent.send_request(resume).block_task().await?;
        assert_eq!(current(&resumed.config_options, SessionConfigOptionCategory::Mode), "code");
        assert_eq!(current(&resumed.config_options, SessionConfigOptionCategory::ThoughtLevel), "high");
        agent.send_request(CloseSessionRequest::new(session.to_owned())).block_task().await?;
        Ok(())
    })
    .await;
    assert!(matches!(seen.states.last(), Some(StateUpdate::Idle(_))), "{:?}", seen.states);
    seen
}

/// Resumes a session that its agent has lost, and works in it again.
pub(crate) async fn go_on(transport: Transport, session: &str) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (_, seen) = connect(transport, seen.clone(), async |agent, mut grown| {
        initialize(&agent).await?;
        let resume = ResumeSessionRequest::new(session.to_owned(), CWD)
            .replay_from(ReplayFrom::Start(ReplayFromStart::new()));
        agent.send_request(resume).block_task().await?;
        assert_eq!(seen.lock().unwrap().notices, 0);
        prompt(&agent, &SessionId::new(session), "work").await?;
        assert_eq!(idle(&seen, &mut grown).await?, Some(StopReason::EndTurn));
        Ok(())
    })
    .await;
    assert_eq!(seen.notices, 1, "the client hears that the agent begins anew");
    seen
}

async fn connect<T>(
    transport: Transport,
    seen: Arc<Mutex<Seen>>,
    work: impl AsyncFnOnce(ConnectionTo<Agent>, watch::Receiver<()>) -> Result<T>,
) -> (T, Seen) {
    let (bell, grown) = watch::channel(());
    let (told, asked) = (seen.clone(), seen.clone());
    let outcome = Client
        .v2()
        .on_receive_notification(
            async move |update: UpdateSessionNotification, _: ConnectionTo<Agent>| {
                told.lock().unwrap().take(update.update);
                let _ = bell.send(());
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest,
                        responder: Responder<RequestPermissionResponse>,
                        _: ConnectionTo<Agent>| {
                asked.lock().unwrap().asked += 1;
                assert!(
                    matches!(request.subject, Some(RequestPermissionSubject::ToolCall(_))),
                    "{request:?}"
                );
                let allows = |option: &&PermissionOption| option.kind == PermissionOptionKind::AllowOnce;
                let option = request.options.iter().find(allows).expect("an option that allows");
                let chosen = SelectedPermissionOutcome::new(option.option_id.clone());
                responder.respond(RequestPermissionResponse::new(RequestPermissionOutcome::Selected(chosen)))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async |agent| work(agent, grown).await);
    let outcome = within(outcome).await.expect("no error on the way");
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (outcome, seen)
}

async fn initialize(agent: &ConnectionTo<Agent>) -> Result<()> {
    let info = Implementation::new("sdk-client", "1.0");
    let answer = agent.send_request(InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
    assert_eq!(answer.protocol_version, ProtocolVersion::V2);
    assert!(answer.capabilities.session.is_some());
    Ok(())
}

async fn prompt(agent: &ConnectionTo<Agent>, session: &SessionId, text: &str) -> Result<MessageId> {
    let request = PromptRequest::new(session.clone(), vec![text.into()]);
    Ok(agent.send_request(request).block_task().await?.message_id)
}

/// Waits for the end of a turn that has begun, and forgets its states.
async fn idle(seen: &Mutex<Seen>, grown: &mut watch::Receiver<()>) -> Result<Option<StopReason>> {
    loop {
        {
            let mut seen = seen.lock().unwrap();
            let began = seen.states.iter().position(|state| matches!(state, StateUpdate::Running(_)));
            let ended = seen.states.iter().rposition(|state| matches!(state, StateUpdate::Idle(_)));
            if let (Some(began), Some(ended)) = (began, ended)
                && began < ended
                && let StateUpdate::Idle(idle) = seen.states[ended].clone()
            {
                seen.states.clear();
                return Ok(idle.stop_reason);
            }
        }
        grown.changed().await.map_err(Error::into_internal_error)?;
    }
}

async fn set(
    agent: &ConnectionTo<Agent>,
    session: &SessionId,
    option: SessionConfigId,
    value: &str,
) -> Result<SetSessionConfigOptionResponse> {
    let value = SessionConfigOptionValue::Id { value: SessionConfigValueId::new(value) };
    let request = SetSessionConfigOptionRequest::new(session.clone(), option, value);
    agent.send_request(request).block_task().await
}

fn option_id(options: &[SessionConfigOption], category: SessionConfigOptionCategory) -> SessionConfigId {
    let wanted = |option: &&SessionConfigOption| option.category == Some(category.clone());
    options.iter().find(wanted).expect("the option").config_id.clone()
}

fn current(options: &[SessionConfigOption], category: SessionConfigOptionCategory) -> String {
    let wanted = |option: &&SessionConfigOption| option.category == Some(category.clone());
    let option = options.iter().find(wanted).expect("the option");
    let SessionConfigKind::Select(select) = &option.kind else { panic!("{option:?}") };
    select.current_value.to_string()
}

impl Seen {
    fn take(&mut self, update: SessionUpdate) {
        self.updates += 1;
        match update {
            SessionUpdate::UserMessageChunk(chunk) => self.grow("user", &chunk),
            SessionUpdate::AgentMessageChunk(chunk) => self.grow("agent", &chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.grow("thought", &chunk),
            SessionUpdate::UserMessage(message) => self.set("user", &message.message_id, message.content),
            SessionUpdate::AgentMessage(message) => self.set("agent", &message.message_id, message.content),
            SessionUpdate::AgentThought(message) => self.set("thought", &message.message_id, message.content),
            SessionUpdate::StateUpdate(state) => {
                assert!(!matches!(state, StateUpdate::Other(_)), "{state:?}");
                self.states.push(state);
            }
            SessionUpdate::ToolCallUpdate(update) => self.call(update),
            SessionUpdate::PlanUpdate(update) => {
                let PlanUpdateContent::Items(plan) = update.plan else { panic!("{update:?}") };
                let entries: Vec<_> = plan
                    .entries
                    .iter()
                    .map(|entry| format!("{} {:?}", entry.content, entry.status))
                    .collect();
                self.view.set("plan", "", &entries.join(", "));
            }
            SessionUpdate::AvailableCommandsUpdate(update) => {
                self.commands =
                    update.available_commands.into_iter().map(|command| command.name().to_owned()).collect();
            }
            SessionUpdate::UsageUpdate(usage) => self.usage = Some(usage.used),
            SessionUpdate::SessionInfoUpdate(info) => self.title = info.title.take(),
            SessionUpdate::Notice(_) => self.notices += 1,
            SessionUpdate::ConfigOptionUpdate(_) => {}
            other => panic!("not expected: {other:?}"),
        }
    }

    fn grow(&mut self, kind: &'static str, chunk: &ContentChunk) {
        let text = text_of(&chunk.content);
        self.view.grow(kind, &chunk.message_id.to_string(), &text);
    }

    fn set(&mut self, kind: &'static str, id: &MessageId, content: MaybeUndefined<Vec<ContentBlock>>) {
        if let MaybeUndefined::Value(blocks) = content {
            let text: String = blocks.iter().map(text_of).collect();
            self.view.set(kind, &id.to_string(), &text);
        }
    }

    fn call(&mut self, update: ToolCallUpdate) {
        let known = |call: &ToolCallUpdate| call.tool_call_id == update.tool_call_id;
        let at = self.calls.iter().position(known).unwrap_or_else(|| {
            self.calls.push(ToolCallUpdate::new(update.tool_call_id.clone()));
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        patch(&mut call.title, update.title);
        patch(&mut call.kind, update.kind);
        patch(&mut call.status, update.status);
        patch(&mut call.content, update.content);
        let content: Vec<_> = call
            .content
            .value()
            .into_iter()
            .flatten()
            .map(|item| match item {
                ToolCallContent::Content(content) => text_of(&content.content),
                ToolCallContent::Diff(diff) => {
                    let DiffChangeOperation::Modify(change) = &diff.changes[0].operation else {
                        panic!("{diff:?}")
                    };
                    let patch = diff.patch.as_ref().expect("a patch");
                    format!("{} {}", change.path.0.display(), changed_by(&patch.text))
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let (title, kind) = (call.title.value().expect("a title"), call.kind.value().expect("a kind"));
        let status = call.status.value().expect("a status");
        let text = format!("{title} {kind:?} {status:?} [{}]", content.join("; "));
        self.view.set("tool", &update.tool_call_id.to_string(), &text);
    }
}

fn patch<T>(field: &mut MaybeUndefined<T>, by: MaybeUndefined<T>) {
    if !matches!(by, MaybeUndefined::Undefined) {
        *field = by;
    }
}

fn text_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        other => panic!("{other:?}"),
    }
}
