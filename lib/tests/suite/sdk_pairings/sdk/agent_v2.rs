//! A version 2 agent on the SDK.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use agent_client_protocol::v2::schema::*;
use agent_client_protocol::v2::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, Client, Result, on_receive_notification, on_receive_request};
use tokio::sync::Notify;

use super::number;
use super::tap::Transport;

/// What is set in a session.
#[derive(Clone)]
struct Settings {
    mode: String,
    effort: String,
}

#[derive(Clone, Default)]
struct State {
    settings: Arc<Mutex<HashMap<String, Settings>>>,
    cancelled: Arc<Notify>,
    messages: Arc<AtomicUsize>,
}

/// Serves one client to its end. Nothing is remembered from one start to the next.
pub(crate) async fn serve(transport: Transport, next: Arc<AtomicUsize>) -> Result<()> {
    let state = State::default();
    let (made, prompted, cancelled, option, closed) =
        (state.clone(), state.clone(), state.clone(), state.clone(), state.clone());
    Agent
        .v2()
        .on_receive_request(
            async |request: InitializeRequest,
                   responder: Responder<InitializeResponse>,
                   _: ConnectionTo<Client>| {
                let info = Implementation::new("sdk-v2", "1.0");
                responder.respond(
                    InitializeResponse::new(request.protocol_version, info)
                        .capabilities(AgentCapabilities::new().session(SessionCapabilities::new())),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest,
                        responder: Responder<NewSessionResponse>,
                        connection: ConnectionTo<Client>| {
                let id = format!("native-{}", number(&next));
                let settings = Settings { mode: "ask".into(), effort: "low".into() };
                let answer = NewSessionResponse::new(id.clone()).config_options(options(&settings));
                made.settings.lock().unwrap().insert(id.clone(), settings);
                responder.respond(answer)?;
                let idle = StateUpdate::Idle(IdleStateUpdate::new());
                connection
                    .send_notification(UpdateSessionNotification::new(id, SessionUpdate::StateUpdate(idle)))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |_: ListSessionsRequest,
                   responder: Responder<ListSessionsResponse>,
                   _: ConnectionTo<Client>| {
                responder.respond(ListSessionsResponse::new(Vec::new()))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async |request: ResumeSessionRequest,
                   responder: Responder<ResumeSessionResponse>,
                   _: ConnectionTo<Client>| {
                let lost = format!("no session {}", request.session_id);
                responder.respond_with_error(agent_client_protocol::Error::new(-32002, lost))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest,
                        responder: Responder<SetSessionConfigOptionResponse>,
                        _: ConnectionTo<Client>| {
                let SessionConfigOptionValue::Id { value } = &request.value else {
                    panic!("not a value of a select: {request:?}");
                };
                let mut settings = option.settings.lock().unwrap();
                let settings =
                    settings.get_mut(&request.session_id.to_string()).expect("a session of this agent");
                match request.config_id.to_string().as_str() {
                    "mode" => settings.mode = value.to_string(),
                    "effort" => settings.effort = value.to_string(),
                    other => panic!("no such option: {other}"),
                }
                responder.respond(SetSessionConfigOptionResponse::new(options(settings)))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest,
                        responder: Responder<PromptResponse>,
                        connection: ConnectionTo<Client>| {
                let (state, client) = (prompted.clone(), connection.clone());
                connection.spawn(async move { state.prompt(request, responder, client).await })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest,
                        responder: Responder<CloseSessionResponse>,
                        _: ConnectionTo<Client>| {
                closed.settings.lock().unwrap().remove(&request.session_id.to_string());
                responder.respond(CloseSessionResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |_: CancelSessionNotification, _: ConnectionTo<Client>| {
                cancelled.cancelled.notify_one();
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

impl State {
    async fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        let Some(ContentBlock::Text(text)) = request.prompt.last() else { panic!("{request:?}") };
        let tell = |update| {
            client.send_notification(UpdateSessionNotification::new(request.session_id.clone(), update))
        };
        let state = |state| tell(SessionUpdate::StateUpdate(state));
        let message = || MessageId::new(format!("m{}", number(&self.messages)));
        let user = message();
        responder.respond(PromptResponse::new(user.clone()))?;
        tell(SessionUpdate::UserMessage(UserMessage::new(user).content(request.prompt.clone())))?;
        state(StateUpdate::Running(RunningStateUpdate::new()))?;
        let end = |reason| state(StateUpdate::Idle(IdleStateUpdate::new().stop_reason(reason)));
        if text.text == "wait" {
            tell(SessionUpdate::AgentMessageChunk(ContentChunk::new("waiting".into(), message())))?;
            self.cancelled.notified().await;
            return end(StopReason::Cancelled);
        }
        tell(SessionUpdate::AgentThoughtChunk(ContentChunk::new("let me see".into(), message())))?;
        let hello = message();
        for part in ["Hel", "lo"] {
            tell(SessionUpdate::AgentMessageChunk(ContentChunk::new(part.into(), hello.clone())))?;
        }
        let call = ToolCallUpdate::new("call_1")
            .title("Write notes".to_owned())
            .kind(ToolKind::Edit)
            .status(ToolCallStatus::Pending)
            .locations(vec![ToolCallLocation::new("/project/notes.txt").line(1)])
            .raw_input(serde_json::json!({"path": "notes.txt"}));
        tell(SessionUpdate::ToolCallUpdate(call.clone()))?;
        state(StateUpdate::RequiresAction(RequiresActionStateUpdate::new()))?;
        let asked = RequestPermissionRequest::new(
            request.session_id.clone(),
            "Write notes?",
            vec![
                PermissionOption::new("yes", "Allow", PermissionOptionKind::AllowOnce),
                PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
            ],
        )
        .subject(RequestPermissionSubject::from(call));
        let outcome = client.send_request(asked).block_task().await?.outcome;
        let RequestPermissionOutcome::Selected(selected) = outcome else { panic!("{outcome:?}") };
        state(StateUpdate::Running(RunningStateUpdate::new()))?;
        let patch = "diff --git a/project/notes.txt b/project/notes.txt\n--- a/project/notes.txt\n\
                     +++ b/project/notes.txt\n@@ -1 +1 @@\n-old\n+new\n";
        let diff = Diff::patch(patch, vec![DiffChange::modify("/project/notes.txt")]);
        tell(SessionUpdate::ToolCallUpdate(
            ToolCallUpdate::new("call_1")
                .status(ToolCallStatus::Completed)
                .content(vec![ToolCallContent::from("written"), ToolCallContent::Diff(diff)])
                .raw_output(serde_json::json!({"bytes": 4})),
        ))?;
        tell(SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(
            "plan-1",
            vec![
                PlanEntry::new("write", PlanEntryPriority::High, PlanEntryStatus::Completed),
                PlanEntry::new("check", PlanEntryPriority::Low, PlanEntryStatus::Pending),
            ],
        ))))?;
        tell(SessionUpdate::UsageUpdate(UsageUpdate::new(10, 100).cost(Cost::new(0.5, "USD"))))?;
        tell(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![
            AvailableCommand::Command(
                Command::new("plan", "Makes a plan")
                    .input(AvailableCommandInput::Text(TextCommandInput::new("what for"))),
            ),
        ])))?;
        let said = format!("You said {}", selected.option_id);
        tell(SessionUpdate::AgentMessageChunk(ContentChunk::new(said.into(), message())))?;
        end(StopReason::EndTurn)
    }
}

fn options(settings: &Settings) -> Vec<SessionConfigOption> {
    let select = |id: &str, name: &str, current: &str, values: [(&str, &str); 2], category| {
        let values: Vec<_> =
            values.iter().map(|(value, name)| SessionConfigSelectOption::new(*value, *name)).collect();
        SessionConfigOption::select(id.to_owned(), name, current.to_owned(), values).category(category)
    };
    vec![
        select(
            "mode",
            "Mode",
            &settings.mode,
            [("ask", "Ask"), ("code", "Code")],
            SessionConfigOptionCategory::Mode,
        ),
        select(
            "effort",
            "Effort",
            &settings.effort,
            [("low", "Low"), ("high", "High")],
            SessionConfigOptionCategory::ThoughtLevel,
        ),
    ]
}
