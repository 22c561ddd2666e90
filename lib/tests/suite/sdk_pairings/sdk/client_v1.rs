//! A version 1 client on the SDK.

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Error, Result, on_receive_notification, on_receive_request};
use tokio::sync::watch;

use super::tap::Transport;
use super::view::{View, changed};
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
    calls: Vec<ToolCall>,
}

/// Makes a session, works in it, closes it. Gives its id.
pub(crate) async fn converse(transport: Transport) -> (String, Seen) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    connect(transport, seen.clone(), async |agent, grown| {
        initialize(&agent).await?;
        let made = agent.send_request(NewSessionRequest::new(CWD)).block_task().await?;
        let session = made.session_id;
        assert_eq!(made.modes.expect("modes").current_mode_id.to_string(), "ask");
        assert_eq!(current(made.config_options.as_deref().unwrap_or_default(), "effort"), "low");

        let mode = SetSessionModeRequest::new(session.clone(), "code");
        agent.send_request(mode).block_task().await?;
        let option = SetSessionConfigOptionRequest::new(
            session.clone(),
            "effort",
            SessionConfigOptionValue::value_id("high"),
        );
        let set = agent.send_request(option).block_task().await?;
        assert_eq!(current(&set.config_options, "effort"), "high");

        let stop = prompt(&agent, &session, &seen, "work").await?;
        assert_eq!(stop, StopReason::EndTurn);
        let cancel = async {
            let mut grown = grown;
            let waiting = |seen: &Seen| seen.view.last("agent") == Some("waiting");
            while !waiting(&seen.lock().unwrap()) {
                grown.changed().await.map_err(Error::into_internal_error)?;
            }
            agent.send_notification(CancelNotification::new(session.clone()))
        };
        let (stop, sent) = tokio::join!(prompt(&agent, &session, &seen, "wait"), cancel);
        sent?;
        assert_eq!(stop?, StopReason::Cancelled);

        let list = agent.send_request(ListSessionsRequest::new()).block_task().await?;
        assert_eq!(list.sessions.len(), 1, "{list:?}");
        assert_eq!(list.sessions[0].session_id, session);
        assert_eq!(list.sessions[0].title.as_deref(), Some("work"));
        agent.send_request(CloseSessionRequest::new(session.clone())).block_task().await?;
        Ok(session.to_string())
    })
    .await
}

/// Loads a session on a new connection, and closes it.
pub(crate) async fn look_again(transport: Transport, session: &str) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (_, seen) = connect(transport, seen, async |agent, _| {
        initialize(&agent).await?;
        let load = LoadSessionRequest::new(session.to_owned(), CWD);
        let loaded = agent.send_request(load).block_task().await?;
        assert_eq!(loaded.modes.expect("modes").current_mode_id.to_string(), "code");
        assert_eq!(current(loaded.config_options.as_deref().unwrap_or_default(), "effort"), "high");
        let resume = ResumeSessionRequest::new(session.to_owned(), CWD);
        agent.send_request(resume).block_task().await?;
        agent.send_request(CloseSessionRequest::new(session.to_owned())).block_task().await?;
        Ok(())
    })
    .await;
    seen
}

/// Loads a session that its agent has lost, and works in it again.
pub(crate) async fn go_on(transport: Transport, session: &str) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (_, seen) = connect(transport, seen.clone(), async |agent, _| {
        initialize(&agent).await?;
        let load = LoadSessionRequest::new(session.to_owned(), CWD);
        agent.send_request(load).block_task().await?;
        assert_eq!(seen.lock().unwrap().notices, 0);
        let stop = prompt(&agent, &SessionId::new(session), &seen, "work").await?;
        assert_eq!(stop, StopReason::EndTurn);
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
        .v1()
        .on_receive_notification(
            async move |update: SessionNotification, _: ConnectionTo<Agent>| {
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
    let session = ClientSessionCapabilities::new().notices(NoticeCapabilities::new());
    let request = InitializeRequest::new(ProtocolVersion::V1)
        .client_capabilities(ClientCapabilities::new().session(session))
        .client_info(Implementation::new("sdk-client", "1.0"));
    let answer = agent.send_request(request).block_task().await?;
    assert_eq!(answer.protocol_version, ProtocolVersion::V1);
    assert!(answer.agent_capabilities.load_session);
    let session = answer.agent_capabilities.session_capabilities;
    assert!(session.list.is_some() && session.resume.is_some() && session.close.is_some());
    Ok(())
}

async fn prompt(
    agent: &ConnectionTo<Agent>,
    session: &SessionId,
    seen: &Mutex<Seen>,
    text: &str,
) -> Result<StopReason> {
    // Version 1 does not tell a client what it said itself.
    {
        let mut seen = seen.lock().unwrap();
        let own = format!("own {}", seen.updates);
        seen.view.set("user", &own, text);
    }
    let request = PromptRequest::new(session.clone(), vec![text.into()]);
    Ok(agent.send_request(request).block_task().await?.stop_reason)
}

fn current(options: &[SessionConfigOption], id: &str) -> String {
    let option = options.iter().find(|option| option.id.to_string() == id).expect("the option");
    let SessionConfigKind::Select(select) = &option.kind else { panic!("{option:?}") };
    select.current_value.to_string()
}

impl Seen {
    fn take(&mut self, update: SessionUpdate) {
        self.updates += 1;
        match update {
            SessionUpdate::UserMessageChunk(chunk) => self.grow("user", chunk),
            SessionUpdate::AgentMessageChunk(chunk) => self.grow("agent", chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.grow("thought", chunk),
            SessionUpdate::ToolCall(call) => {
                assert!(self.calls.iter().all(|known| known.tool_call_id != call.tool_call_id));
                self.calls.push(call);
                self.show_call(self.calls.len() - 1);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let known = |call: &ToolCall| call.tool_call_id == update.tool_call_id;
                let at = self.calls.iter().position(known).expect("an update of a call that was told");
                self.calls[at].update(update.fields);
                self.show_call(at);
            }
            SessionUpdate::Plan(plan) => {
                let entries: Vec<_> = plan
                    .entries
                    .iter()
                    .map(|entry| format!("{} {:?}", entry.content, entry.status))
                    .collect();
                self.view.set("plan", "", &entries.join(", "));
            }
            SessionUpdate::AvailableCommandsUpdate(update) => {
                self.commands = update.available_commands.into_iter().map(|command| command.name).collect();
            }
            SessionUpdate::UsageUpdate(usage) => self.usage = Some(usage.used),
            SessionUpdate::SessionInfoUpdate(info) => self.title = info.title.take(),
            SessionUpdate::Notice(_) => self.notices += 1,
            SessionUpdate::CurrentModeUpdate(_) | SessionUpdate::ConfigOptionUpdate(_) => {}
            other => panic!("not expected: {other:?}"),
        }
    }

    fn grow(&mut self, kind: &'static str, chunk: ContentChunk) {
        let ContentBlock::Text(text) = chunk.content else { panic!("{chunk:?}") };
        let id = chunk.message_id.expect("a message id").to_string();
        self.view.grow(kind, &id, &text.text);
    }

    fn show_call(&mut self, at: usize) {
        let call = &self.calls[at];
        let content: Vec<_> = call
            .content
            .iter()
            .map(|item| match item {
                ToolCallContent::Content(content) => match &content.content {
                    ContentBlock::Text(text) => text.text.clone(),
                    other => panic!("{other:?}"),
                },
                ToolCallContent::Diff(diff) => {
                    let change = changed(diff.old_text.as_deref().unwrap_or_default(), &diff.new_text);
                    format!("{} {change}", diff.path.display())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let text = format!("{} {:?} {:?} [{}]", call.title, call.kind, call.status, content.join("; "));
        let id = call.tool_call_id.to_string();
        self.view.set("tool", &id, &text);
    }
}
