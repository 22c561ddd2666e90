//! The client of the official Rust SDK with a running `rethread serve`, by WebSocket and by streamable HTTP, in both versions with
//! agents of both: new, prompt with a tool call and a permission, cancel, load and resume.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::{Agent, Client, Error, on_receive_notification, on_receive_request};
use agent_client_protocol_http::HttpClient;
use rethread::lock::locked;
use tokio::sync::watch;

use super::restart::{BOTH, Restartable};

/// What a client has seen: the texts of messages, and the states of turns.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn take(&self, update: &impl serde::Serialize) {
        let update = serde_json::to_value(update).expect("an update is JSON");
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let words = match (kind, update["content"]["text"].as_str()) {
            ("agent_message_chunk", Some(text)) => Some(text.to_owned()),
            ("agent_message", _) => update["content"][0]["text"].as_str().map(str::to_owned),
            ("tool_call" | "tool_call_update", _) => Some("[tool]".to_owned()),
            ("state_update", _) => Some(format!("[{}]", update["state"].as_str().unwrap_or_default())),
            _ => None,
        };
        locked(&self.0).extend(words);
    }

    fn has(&self, text: &str) -> bool {
        locked(&self.0).iter().any(|seen| seen == text)
    }

    /// The texts of messages.
    fn texts(&self) -> Vec<String> {
        locked(&self.0).iter().filter(|text| !text.starts_with('[')).cloned().collect()
    }

    async fn wait(&self, news: &mut watch::Receiver<()>, text: &str) -> Result<(), Error> {
        while !self.has(text) {
            news.changed().await.map_err(Error::into_internal_error)?;
        }
        Ok(())
    }
}

fn transport(scene: &Restartable, scheme: &str) -> HttpClient {
    let mut headers = http::HeaderMap::new();
    let bearer = format!("Bearer {}", scene.token);
    headers.insert("authorization", bearer.parse().expect("a token is valid in a header"));
    let builder = HttpClient::builder(scene.url.replacen("http", scheme, 1));
    builder.configure_http(|http| http.default_headers(headers)).build().expect("it can be made")
}

async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("it ends").expect("no error on the way")
}

#[tokio::test]
async fn clients_of_version_1_hold_a_whole_conversation() {
    use agent_client_protocol::v1::schema::*;
    use agent_client_protocol::v1::{ConnectionTo, Responder};
    for (agent, scheme) in BOTH.into_iter().flat_map(|agent| ["http", "ws"].map(|scheme| (agent, scheme))) {
        let scene = Restartable::start(agent).await;
        let (seen, (bell, news)) = (Seen::default(), watch::channel(()));
        let told = seen.clone();
        let cwd = scene.home.beside().to_owned();
        let conversation = Client
            .v1()
            .on_receive_notification(
                async move |update: SessionNotification, _: ConnectionTo<Agent>| {
                    told.take(&update.update);
                    let _ = bell.send(());
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder: Responder<RequestPermissionResponse>,
                            _: ConnectionTo<Agent>| {
                    let option = request.options[0].option_id.clone();
                    let chosen = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
                    responder.respond(RequestPermissionResponse::new(chosen))
                },
                on_receive_request!(),
            )
            .connect_with(transport(&scene, scheme), async |agent| {
                let mut news = news;
                agent.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
                let made = agent.send_request(NewSessionRequest::new(cwd.clone())).block_task().await?;
                let session = made.session_id;
                let prompt = |text: &str| PromptRequest::new(session.clone(), vec![text.into()]);
                let done = agent.send_request(prompt("say one; tool call_1; permit")).block_task().await?;
                assert_eq!(done.stop_reason, StopReason::EndTurn);
                let cancel = async {
                    seen.wait(&mut news, "two").await?;
                    agent.send_notification(CancelNotification::new(session.clone()))
                };
                let hanging = agent.send_request(prompt("say two; hang")).block_task();
                let (done, cancelled) = tokio::join!(hanging, cancel);
                cancelled?;
                assert_eq!(done?.stop_reason, StopReason::Cancelled);
                assert!(seen.has("[tool]"), "{scheme}, {agent:?}");
                let live = seen.texts();
                locked(&seen.0).clear();
                let load = LoadSessionRequest::new(session.clone(), cwd.clone());
                agent.send_request(load).block_task().await?;
                // The answer and the replay come by different streams.
                seen.wait(&mut news, "two").await?;
                assert_eq!(seen.texts(), live, "{scheme}, {agent:?}");
                agent
                    .send_request(ResumeSessionRequest::new(session.clone(), cwd.clone()))
                    .block_task()
                    .await?;
                Ok(live)
            });
        let live = within(conversation).await;
        assert_eq!(live.first().map(String::as_str), Some("one"), "{live:?}");
        assert!(live.iter().any(|text| text.starts_with("permission: selected")), "{live:?}");
    }
}

#[tokio::test]
async fn clients_of_version_2_hold_a_whole_conversation() {
    use agent_client_protocol::v2::schema::*;
    use agent_client_protocol::v2::{ConnectionTo, Responder};
    for (agent, scheme) in BOTH.into_iter().flat_map(|agent| ["http", "ws"].map(|scheme| (agent, scheme))) {
        let scene = Restartable::start(agent).await;
        let (seen, (bell, news)) = (Seen::default(), watch::channel(()));
        let told = seen.clone();
        let cwd = scene.home.beside().to_owned();
        let conversation = Client
            .v2()
            .on_receive_notification(
                async move |update: UpdateSessionNotification, _: ConnectionTo<Agent>| {
                    told.take(&update.update);
                    let _ = bell.send(());
                    Ok(())
                },
                on_receive_notification!(),
            )
            .on_receive_request(
                async move |request: RequestPermissionRequest,
                            responder: Responder<RequestPermissionResponse>,
                            _: ConnectionTo<Agent>| {
                    let option = request.options[0].option_id.clone();
                    let chosen = RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option));
                    responder.respond(RequestPermissionResponse::new(chosen))
                },
                on_receive_request!(),
            )
            .connect_with(transport(&scene, scheme), async |agent| {
                let mut news = news;
                let info = Implementation::new("sdk-client", "1.0");
                agent.send_request(InitializeRequest::new(ProtocolVersion::V2, info)).block_task().await?;
                let made = agent.send_request(NewSessionRequest::new(cwd.clone())).block_task().await?;
                let session = made.session_id;
                let prompt = |text: &str| PromptRequest::new(session.clone(), vec![text.into()]);
                agent
                    .send_request(prompt("say one; tool call_1; permit; say two; hang"))
                    .block_task()
                    .await?;
                seen.wait(&mut news, "two").await?;
                locked(&seen.0).retain(|text| text != "[idle]");
                agent.send_notification(CancelSessionNotification::new(session.clone()))?;
                seen.wait(&mut news, "[idle]").await?;
                assert!(seen.has("[tool]"), "{scheme}, {agent:?}");
                let live = seen.texts();
                locked(&seen.0).clear();
                let start = ReplayFrom::Start(ReplayFromStart::new());
                let resume = ResumeSessionRequest::new(session.clone(), cwd.clone()).replay_from(start);
                agent.send_request(resume).block_task().await?;
                seen.wait(&mut news, "two").await?;
                assert_eq!(seen.texts(), live, "{scheme}, {agent:?}");
                Ok(live)
            });
        let live = within(conversation).await;
        assert_eq!(live.first().map(String::as_str), Some("one"), "{live:?}");
        assert!(live.iter().any(|text| text.starts_with("permission: selected")), "{live:?}");
    }
}
