//! A version 1 agent on the SDK.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::*;
use agent_client_protocol::v1::{ConnectionTo, Responder};
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
}

/// Serves one client to its end.
pub(crate) async fn serve(transport: Transport, next: Arc<AtomicUsize>) -> Result<()> {
    let state = State::default();
    let (made, prompted, cancelled, mode, option) =
        (state.clone(), state.clone(), state.clone(), state.clone(), state.clone());
    Agent
        .v1()
        .on_receive_request(
            async |_: InitializeRequest,
                   responder: Responder<InitializeResponse>,
                   _: ConnectionTo<Client>| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1)
                        .agent_capabilities(AgentCapabilities::new())
                        .agent_info(Implementation::new("sdk-v1", "1.0")),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest,
                        responder: Responder<NewSessionResponse>,
                        _: ConnectionTo<Client>| {
                let id = format!("native-{}", number(&next));
                let settings = Settings { mode: "ask".into(), effort: "low".into() };
                let answer = NewSessionResponse::new(id.clone())
                    .modes(modes(&settings))
                    .config_options(options(&settings));
                made.settings.lock().unwrap().insert(id, settings);
                responder.respond(answer)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest,
                        responder: Responder<SetSessionModeResponse>,
                        _: ConnectionTo<Client>| {
                mode.set(&request.session_id, |settings| settings.mode = request.mode_id.to_string());
                responder.respond(SetSessionModeResponse::new())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest,
                        responder: Responder<SetSessionConfigOptionResponse>,
                        _: ConnectionTo<Client>| {
                let SessionConfigOptionValue::ValueId { value } = &request.value else {
                    panic!("not a value of a select: {request:?}");
                };
                assert_eq!(request.config_id.to_string(), "effort");
                let settings =
                    option.set(&request.session_id, |settings| settings.effort = value.to_string());
                responder.respond(SetSessionConfigOptionResponse::new(options(&settings)))
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
        .on_receive_notification(
            async move |_: CancelNotification, _: ConnectionTo<Client>| {
                cancelled.cancelled.notify_one();
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

impl State {
    fn set(&self, session: &SessionId, change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = self.settings.lock().unwrap();
        let settings = settings.get_mut(&session.to_string()).expect("a session of this agent");
        change(settings);
        settings.clone()
    }

    async fn prompt(
        &self,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        client: ConnectionTo<Client>,
    ) -> Result<()> {
        let Some(ContentBlock::Text(text)) = request.prompt.last() else { panic!("{request:?}") };
        let tell =
            |update| client.send_notification(SessionNotification::new(request.session_id.clone(), update));
        if text.text == "wait" {
            tell(SessionUpdate::AgentMessageChunk(ContentChunk::new("waiting".into())))?;
            self.cancelled.notified().await;
            return responder.respond(PromptResponse::new(StopReason::Cancelled));
        }
        tell(SessionUpdate::AgentThoughtChunk(ContentChunk::new("let me see".into())))?;
        for part in ["Hel", "lo"] {
            tell(SessionUpdate::AgentMessageChunk(ContentChunk::new(part.into())))?;
        }
        tell(SessionUpdate::ToolCall(
            ToolCall::new("call_1", "Write notes")
                .kind(ToolKind::Edit)
                .status(ToolCallStatus::Pending)
                .locations(vec![ToolCallLocation::new("/project/notes.txt").line(1)])
                .raw_input(serde_json::json!({"path": "notes.txt"})),
        ))?;
        let asked = RequestPermissionRequest::new(
            request.session_id.clone(),
            ToolCallUpdate::new("call_1", ToolCallUpdateFields::new().title("Write notes".to_owned())),
            vec![
                PermissionOption::new("yes", "Allow", PermissionOptionKind::AllowOnce),
                PermissionOption::new("no", "Reject", PermissionOptionKind::RejectOnce),
            ],
        );
        let outcome = client.send_request(asked).block_task().await?.outcome;
        let RequestPermissionOutcome::Selected(selected) = outcome else { panic!("{outcome:?}") };
        let diff = Diff::new("/project/notes.txt", "new\n").old_text("old\n".to_owned());
        tell(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(
            "call_1",
            ToolCallUpdateFields::new()
                .status(ToolCallStatus::Completed)
                .content(vec![ToolCallContent::from("written"), ToolCallContent::Diff(diff)])
                .raw_output(serde_json::json!({"bytes": 4})),
        )))?;
        tell(SessionUpdate::Plan(Plan::new(vec![
            PlanEntry::new("write", PlanEntryPriority::High, PlanEntryStatus::Completed),
            PlanEntry::new("check", PlanEntryPriority::Low, PlanEntryStatus::Pending),
        ])))?;
        tell(SessionUpdate::UsageUpdate(UsageUpdate::new(10, 100).cost(Cost::new(0.5, "USD"))))?;
        tell(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![
            AvailableCommand::new("plan", "Makes a plan")
                .input(AvailableCommandInput::Unstructured(UnstructuredCommandInput::new("what for"))),
        ])))?;
        let said = format!("You said {}", selected.option_id);
        tell(SessionUpdate::AgentMessageChunk(ContentChunk::new(said.into())))?;
        responder.respond(PromptResponse::new(StopReason::EndTurn))
    }
}

fn modes(settings: &Settings) -> SessionModeState {
    SessionModeState::new(
        settings.mode.clone(),
        vec![SessionMode::new("ask", "Ask"), SessionMode::new("code", "Code")],
    )
}

fn options(settings: &Settings) -> Vec<SessionConfigOption> {
    let values =
        vec![SessionConfigSelectOption::new("low", "Low"), SessionConfigSelectOption::new("high", "High")];
    vec![
        SessionConfigOption::select("effort", "Effort", settings.effort.clone(), values)
            .category(SessionConfigOptionCategory::ThoughtLevel),
    ]
}
