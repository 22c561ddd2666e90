//! The library's client: against scripted agents of both versions, directly, and through a server; over bytes and over
//! whole messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rethread::agent::host::{AgentProtocol, AgentSource};
use rethread::client::view::SessionView;
use rethread::client::{
    AcpClient, AgentRequest, AskedQuestion, ClientConfig, ClientError, ClientHandler, ClientService,
    ClientSession, Introduction, ServerSource, SessionEvent, TransportSource,
};
use rethread::edge::Version;
use rethread::edge::client_request::{ArchivedParam, ReplayFrom, Setup};
use rethread::transport::messages::MessageChannel;
use rethread_core::{Activity, Json, SessionId, Stop, Subject, TextPart};
use rethread_testkit::agent::{AgentConfig, Offer, ScriptedAgent, Speaks};
use rethread_testkit::{DEADLINE, Pairing, World, pairings};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// What the handler does with permission questions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    First,
    Nothing,
}

/// Folds the events, and answers as it was told.
#[derive(Clone)]
struct Recorder {
    views: Arc<Mutex<HashMap<SessionId, SessionView>>>,
    open: Arc<Mutex<Vec<AskedQuestion>>>,
    ended: Arc<Mutex<Vec<String>>>,
    bell: Arc<Notify>,
    answers: Answers,
}

impl Recorder {
    fn new(answers: Answers) -> Self {
        let (views, open, ended, bell) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        Self { views, open, ended, bell, answers }
    }

    fn view(&self, session: &SessionId) -> SessionView {
        self.views.lock().expect("no panic").get(session).cloned().unwrap_or_default()
    }

    async fn wait(&self, what: &str, is: impl Fn() -> bool) {
        let waiting = async {
            loop {
                let rung = self.bell.notified();
                if is() {
                    return;
                }
                rung.await;
            }
        };
        assert!(tokio::time::timeout(DEADLINE, waiting).await.is_ok(), "{what} did not come");
    }
}

impl ClientHandler for Recorder {
    async fn event(&self, session: &SessionId, event: &SessionEvent) {
        self.views.lock().expect("no panic").entry(session.clone()).or_default().apply(event);
        self.bell.notify_one();
    }

    async fn question(&self, question: AskedQuestion) {
        match self.answers {
            Answers::Nothing => self.open.lock().expect("no panic").push(question),
            Answers::First => {
                let options = question.body.fields().get("options").and_then(Json::items).unwrap_or_default();
                let first = options[0].fields().text("optionId").expect("an option has an id");
                question.select(&first).await;
            }
        }
        self.bell.notify_one();
    }

    async fn request(&self, request: AgentRequest) {
        match request.method.as_str() {
            "fs/read_text_file" => request.answer(Ok(&json!({"content": "of the client"}).into())),
            _ => drop(request),
        }
    }

    async fn ended(&self, reason: &str) {
        self.ended.lock().expect("no panic").push(reason.to_owned());
        self.bell.notify_one();
    }
}

fn introduction() -> Introduction {
    let services = vec![ClientService::ReadFiles, ClientService::Forms];
    Introduction { name: "test".to_owned(), title: None, version: "1".to_owned(), services }
}

fn setup() -> Setup {
    Setup { cwd: "/work".to_owned(), ..Setup::default() }
}

fn asking(version: Version) -> ClientConfig {
    ClientConfig { protocol: AgentProtocol::First(version), ..ClientConfig::default() }
}

async fn connect(source: impl AgentSource, version: Version, recorder: &Recorder) -> AcpClient<Recorder> {
    let (source, me) = (Arc::new(source), introduction());
    let client = AcpClient::connect(source, &me, asking(version), recorder.clone()).await;
    client.expect("the agent answers")
}

async fn begun(
    source: impl AgentSource,
    version: Version,
    answers: Answers,
) -> (AcpClient<Recorder>, ClientSession, Recorder) {
    let recorder = Recorder::new(answers);
    let client = connect(source, version, &recorder).await;
    let session = client.new_session(&setup()).await.expect("a session opens");
    (client, session, recorder)
}

/// What a user sees, as text.
fn seen(view: &SessionView) -> String {
    let mut lines = Vec::new();
    for item in view.items() {
        let heading = [item.title(), item.status()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let steps = item.plan_steps();
        let steps = steps.iter().map(|step| format!("{} {}", step.content, step.status));
        let parts = item.parts();
        let texts = parts.iter().map(part_text).filter(|text| !text.is_empty());
        let text = std::iter::once(heading).chain(texts).chain(steps).filter(|text| !text.is_empty());
        lines.push(format!("{:?}: {}", item.subject, text.collect::<Vec<_>>().join("; ")));
    }
    lines.join("\n")
}

/// The text of a part. Patches are not compared, because version 1 has none.
fn part_text(part: &TextPart) -> String {
    match part {
        TextPart::Diff { changes, .. } => changes.iter().map(|(_, path)| format!("diff {path}")).collect(),
        TextPart::Text(_)
        | TextPart::Link(_)
        | TextPart::Resource { .. }
        | TextPart::Terminal(_)
        | TextPart::Opaque(_) => part.text().trim_end().to_owned(),
    }
}

const SCRIPT: &str = "think hm; say hello; tool call_1; plan a,b; usage 5/10; title Named; say bye";

async fn a_session_looks_the_same_directly_and_through_a_server(pairing: Pairing) {
    let (direct, session, recorder) = begun(ScriptedAgent::of(pairing), pairing.client, Answers::First).await;
    assert_eq!(direct.version(), pairing.agent, "what the agent answers with is accepted");
    assert_eq!(session.prompt_text(SCRIPT).await, Ok(Stop::plain("end_turn")));
    let alone = recorder.view(session.id());
    let world = World::of(pairing);
    let source = ServerSource::new(world.server.clone());
    let (client, session, recorder) = begun(source.clone(), pairing.client, Answers::First).await;
    assert_eq!(client.version(), pairing.client);
    assert_eq!(session.prompt_text(SCRIPT).await, Ok(Stop::plain("end_turn")));
    let live = recorder.view(session.id());
    assert_eq!(seen(&alone), seen(&live));
    assert_eq!((live.title(), live.usage().map(|usage| usage.used)), (Some("Named"), Some(5)));
    assert_eq!(live.activity(), Some(Activity::Idle));
    client.close().await;
    source.closed().await;

    let recorder = Recorder::new(Answers::First);
    let client = connect(ServerSource::new(world.again().server), pairing.client, &recorder).await;
    let again = client.attach(session.id(), &setup(), &ReplayFrom::Start).await.expect("it loads");
    assert_eq!(seen(&recorder.view(again.id())), seen(&live));
}

async fn a_permission_is_asked_and_settled(pairing: Pairing) {
    let (_client, session, recorder) = begun(ScriptedAgent::of(pairing), pairing.agent, Answers::First).await;
    assert_eq!(session.prompt_text("permit").await, Ok(Stop::plain("end_turn")));
    let view = recorder.view(session.id());
    assert!(view.questions().is_empty());
    let text = seen(&view);
    assert!(text.contains("selected") || text.contains("allow"), "{text}");
}

async fn a_cancel_settles_the_open_question(pairing: Pairing) {
    let (_client, session, recorder) =
        begun(ScriptedAgent::of(pairing), pairing.agent, Answers::Nothing).await;
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.prompt_text("permit; hang").await }
    });
    recorder.wait("the question", || !recorder.open.lock().expect("no panic").is_empty()).await;
    assert_eq!(recorder.view(session.id()).activity(), Some(Activity::RequiresAction));
    session.cancel().await.expect("the agent reads");
    assert_eq!(turn.await.expect("no panic"), Ok(Stop::plain("cancelled")));
    recorder.wait("the end", || recorder.view(session.id()).questions().is_empty()).await;
}

async fn the_session_surface_of_a_server(pairing: Pairing) {
    let world = World::with_config(pairing, |config| AgentConfig { offers: vec![Offer::Modes], ..config });
    let source = ServerSource::new(world.server.clone());
    let (client, session, recorder) = begun(source, pairing.client, Answers::First).await;
    session.prompt_text("say one").await.expect("a turn");
    session.set_mode("b").await.expect("the agent has modes");
    let mode = recorder.view(session.id()).option_of("mode").map(|mode| mode.value_text());
    assert_eq!(mode.as_deref(), Some("b"));
    let unknown = session.set_option("colour", &Json::of("red")).await;
    assert_eq!(unknown, Err(ClientError::NotOffered("the option colour".to_owned())));
    client.set_title(session.id(), "Mine").await.expect("it has titles");
    let fork = client.fork(session.id(), &setup(), None).await.expect("it forks");
    assert_ne!(fork.id(), session.id());
    fork.prompt_text("say two").await.expect("a turn");
    assert!(seen(&recorder.view(fork.id())).ends_with("AgentMessage: two"));
    let page = client.list(Some("/work"), None, ArchivedParam::Exclude).await.expect("it lists");
    assert_eq!(page.sessions.len(), 2, "{page:?}");
    assert!(page.sessions.iter().any(|one| one.id == *session.id() && one.title.as_deref() == Some("Mine")));
    fork.close().await.expect("it closes");
    client.archive(fork.id()).await.expect("it archives");
    let archived = client.list(None, None, ArchivedParam::Only).await.expect("it lists");
    assert_eq!(archived.sessions.iter().map(|one| &one.id).collect::<Vec<_>>(), [fork.id()]);
    client.unarchive(fork.id()).await.expect("it takes it out");
    client.delete(fork.id()).await.expect("it deletes");
    let gone = client.attach(fork.id(), &setup(), &ReplayFrom::Start).await.err();
    assert_eq!(gone.as_ref().and_then(ClientError::code), Some(-32002), "{gone:?}");
    assert!(client.status(session.id()).await.is_ok());
}

async fn what_is_not_offered_is_not_sent(pairing: Pairing) {
    let agent = ScriptedAgent::new(AgentConfig { can: Vec::new(), ..config(pairing.agent) });
    let (client, session, _recorder) = begun(agent.clone(), pairing.agent, Answers::First).await;
    let before = agent.received().len();
    let id = session.id();
    let image = json!([{"type": "image", "data": "", "mimeType": "image/png"}]);
    let outcomes = [
        client.fork(id, &setup(), None).await.map(drop),
        client.delete(id).await,
        client.archive(id).await,
        client.set_title(id, "x").await,
        client.authenticate("nobody").await,
        session.set_option("colour", &Json::of("red")).await,
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(ClientError::NotOffered(_))), "{outcome:?}");
    }
    assert!(matches!(session.prompt(&image.into()).await, Err(ClientError::Refused(_))));
    assert_eq!(agent.received().len(), before);
}

fn config(version: Version) -> AgentConfig {
    AgentConfig::able(match version {
        Version::V1 => Speaks::One,
        Version::V2 => Speaks::Two,
    })
}

async fn an_agent_that_ends_fails_the_turn_and_is_reported(pairing: Pairing) {
    let (client, session, recorder) = begun(ScriptedAgent::of(pairing), pairing.agent, Answers::First).await;
    let failed = session.prompt_text("say a; crash").await;
    assert!(
        matches!(&failed, Err(ClientError::Refused(error)) if error.message.contains("closed")),
        "{failed:?}"
    );
    recorder.wait("the report", || !recorder.ended.lock().expect("no panic").is_empty()).await;
    assert!(client.new_session(&setup()).await.is_err());
}

async fn the_client_does_what_it_offers(pairing: Pairing) {
    let (_client, session, recorder) = begun(ScriptedAgent::of(pairing), pairing.agent, Answers::First).await;
    session.prompt_text("fs /work/a; ext _test/nothing").await.expect("a turn");
    let text = seen(&recorder.view(session.id()));
    assert!(text.contains("file: of the client"), "{text}");
    assert!(text.contains("-32601"), "what it does not have is refused: {text}");
}

async fn prompts_that_are_sent_together_end_one_after_the_other(pairing: Pairing) {
    let world = World::of(pairing);
    let source = ServerSource::new(world.server.clone());
    let (_client, session, recorder) = begun(source, pairing.client, Answers::First).await;
    let (first, second) = tokio::join!(session.prompt_text("wait gate; say one"), async {
        recorder.wait("the first", || !recorder.view(session.id()).items().is_empty()).await;
        let second = session.prompt_text("say two");
        world.agent.open_gate("gate");
        second.await
    });
    assert_eq!((first, second), (Ok(Stop::plain("end_turn")), Ok(Stop::plain("end_turn"))));
    let view = recorder.view(session.id());
    let agent: Vec<_> = view.items().iter().filter(|item| item.subject == Subject::AgentMessage).collect();
    assert_eq!(agent.iter().map(|item| item.text()).collect::<Vec<_>>(), ["one", "two"]);
}

async fn whole_messages_carry_it_too(pairing: Pairing) {
    let world = World::of(pairing);
    let (to_server, incoming) = mpsc::channel(8);
    let (outgoing, from_server) = mpsc::channel(8);
    let server = world.server.clone();
    tokio::spawn(async move { server.serve(MessageChannel { incoming, outgoing }).await });
    let here = MessageChannel { incoming: from_server, outgoing: to_server };
    let (client, session, recorder) = begun(TransportSource::new(here), pairing.client, Answers::First).await;
    session.prompt_text("say over messages").await.expect("a turn");
    assert!(seen(&recorder.view(session.id())).ends_with("AgentMessage: over messages"));
    let answer: Value = client.initialize_answer().value();
    assert!(answer["_meta"]["rethread"]["version"].is_string(), "{answer}");
}

pairings!(
    a_session_looks_the_same_directly_and_through_a_server,
    a_permission_is_asked_and_settled,
    a_cancel_settles_the_open_question,
    the_session_surface_of_a_server,
    prompts_that_are_sent_together_end_one_after_the_other,
    whole_messages_carry_it_too,
);
pairings!(wire:
    // Its capabilities are always the same.
    what_is_not_offered_is_not_sent,
    // It does not end in the middle of a turn.
    an_agent_that_ends_fails_the_turn_and_is_reported,
);
pairings!(wire agent V1:
    // Version 2 has no files of the client.
    the_client_does_what_it_offers,
);
