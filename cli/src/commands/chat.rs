//! `rethread chat`: talks to an agent, in a terminal or with one prompt.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rethread::edge::client_request::ReplayFrom;
use rethread::server::Config;
use rethread::store::OpenOutcome;
use rethread::store::Store;
use rethread::store::memory::MemoryStore;
use rethread_core::Json;
use rethread_http::RemoteTarget;
use serde_json::json;

use crate::agents::AgentChoice;
use crate::changes::{JsonOption, ReportForm};
use crate::chat::agent::AgentArg;
use crate::chat::{
    ChatEnd, ChatServer, ChatSession, Connect, Connected, Conversation, LoginPolicy, Opened, OpeningScreen,
    PermissionPolicy, QuietKeyboard, SaidAnything, TalkSetup, TerminalChat, login_required, plain,
};
use crate::failure::{ExitCode, Failure};
use crate::log::LogLevel;
use crate::paths::Paths;
use crate::resolve;
use crate::server_parts::ServerParts;
use crate::serving;
use crate::serving::find::FoundServer;
use crate::serving::remote::{ConnectArgs, remote_wire};
use crate::serving::request::wire;
use crate::store_choice::StoreChoice;
use crate::stored_sessions::with_store;

/// Options of `chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The first prompt. Without a terminal and without this, it is read from standard input.
    prompt: Option<String>,
    /// Continue this session: its id, a unique beginning or end of it, or `@last`. Without an id, a terminal shows a list
    /// to choose from.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with = "last")]
    resume: Option<String>,
    /// Continue the newest session of this directory.
    #[arg(long)]
    last: bool,
    /// The agent by its name; `rethread` is the built-in assistant.
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    agent: Option<String>,
    /// Allow once whatever the agent asks for.
    #[arg(long, conflicts_with = "no")]
    yes: bool,
    /// Reject whatever the agent asks for. With neither option a terminal asks, and without a terminal it is rejected and
    /// an error.
    #[arg(long)]
    no: bool,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    remote: ConnectArgs,
    /// The agent's program and arguments. Without an agent, a new session is one of the built-in assistant, and a session
    /// that exists continues with the agent that served it last.
    #[arg(last = true, value_name = "AGENT")]
    command: Vec<OsString>,
}

/// Runs a chat.
pub(crate) fn run(args: ChatArgs) -> Result<(), Failure> {
    let form = args.json.form();
    let on_terminal = stdin().is_terminal() && stdout().is_terminal() && form == ReportForm::Text;
    let policy = match (args.yes, args.no) {
        (true, _) => PermissionPolicy::Allow,
        (false, true) => PermissionPolicy::Reject,
        (false, false) => PermissionPolicy::RejectAndFail,
    };
    let prompt = if on_terminal { args.prompt } else { Some(prompt_without_terminal(args.prompt)?) };
    if args.remote.connect.is_some() && (args.resume.is_some() || args.last || !args.command.is_empty()) {
        return Err(Failure::new(ExitCode::Usage, "a chat with a remote server begins a new session")
            .hint("leave out --resume, --last and the command; --agent names an agent of the server"));
    }
    let target = args.remote.target(args.agent.as_deref())?;
    let agent = AgentArg::of(args.agent, args.command);
    let named = if args.last { Some("@last".to_owned()) } else { args.resume };
    let (choice, agent_choice, prepared) = match target {
        // Its logins do not run here.
        Some(target) => (new_session()?, AgentChoice::Assistant, PreparedChat::Remote(Box::new(target))),
        None => {
            let running = serving::usable()?;
            let (choice, agent_choice) = session_and_agent(named, agent.clone(), running.as_ref())?;
            let prepared = PreparedChat::new(running, &choice, agent_choice.clone())?;
            (choice, agent_choice, prepared)
        }
    };
    let agent = ChatAgent { named: agent, choice: agent_choice };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let (store, server) = prepared.ready().await?;
        match prompt {
            Some(prompt) if !on_terminal => send(&server, &choice, &agent, &prompt, form, policy).await,
            prompt => talk(&store, &server, choice, prompt, &agent, policy).await,
        }
    });
    // A thread may wait for keys.
    runtime.shutdown_background();
    outcome
}

/// The agent of a chat.
struct ChatAgent {
    /// As the command line names it.
    named: AgentArg,
    choice: AgentChoice,
}

/// What a chat needs, before there is a runtime.
enum PreparedChat {
    /// A server in this process.
    Own(Box<ServerParts>, OpenOutcome),
    /// A connection to the running server, for this agent.
    Running(UnixStream, AgentChoice),
    /// The address of a server.
    Remote(Box<RemoteTarget>),
}

impl PreparedChat {
    /// Uses the running server if there is one that takes this chat.
    fn new(running: Option<FoundServer>, choice: &ChatSession, agent: AgentChoice) -> Result<Self, Failure> {
        let served = running.map(|found| serving::client_of(found, &agent, &Config::default()));
        if let Some(stream) = served.transpose()?.flatten() {
            return Ok(Self::Running(stream, agent));
        }
        choice.check()?;
        let (parts, opened) = ServerParts::prepare(agent, Config::default(), LogLevel::Info)?;
        Ok(Self::Own(Box::new(parts), opened))
    }

    /// The store and the server, once both can be used.
    async fn ready(self) -> Result<(Arc<dyn Store>, ChatServer), Failure> {
        match self {
            Self::Own(parts, opened) => {
                opened.wait().await?;
                Ok((parts.store.clone(), ChatServer::Own(parts.server())))
            }
            Self::Running(stream, agent) => {
                let store = StoreChoice::read(&Paths::from_environment()?)?.open()?;
                Ok((store, ChatServer::Running(connect_again(stream, agent))))
            }
            // What is said there is stored there.
            Self::Remote(target) => {
                let connect: Connect = Box::new(move || Box::pin(remote_wire((*target).clone())));
                Ok((Arc::new(MemoryStore::new()), ChatServer::Running(connect)))
            }
        }
    }
}

/// Uses this connection to the running server first, and a new one for each time after that.
fn connect_again(stream: UnixStream, agent: AgentChoice) -> Connect {
    let first = Cell::new(Some(stream));
    Box::new(move || {
        let stream = match first.take() {
            Some(stream) => Ok(Some(stream)),
            None => serving::usable().and_then(|found| {
                found.map_or(Ok(None), |found| serving::client_of(found, &agent, &Config::default()))
            }),
        };
        Box::pin(async move {
            let ended = || Failure::plain("the server takes no more clients").hint("rethread serve --status");
            Ok(wire(stream?.ok_or_else(ended)?)?)
        })
    })
}

/// Sends one prompt without a terminal.
async fn send(
    server: &ChatServer,
    choice: &ChatSession,
    agent: &ChatAgent,
    prompt: &str,
    form: ReportForm,
    policy: PermissionPolicy,
) -> Result<(), Failure> {
    let connected = Connected::to(server, LoginPolicy::Fail).await?;
    let mut chat = match Conversation::open(connected, choice, &ReplayFrom::Nothing, |_, _| {}).await? {
        Opened::Chat(chat) => *chat,
        Opened::LoginRequired(connected, error) => {
            let failure = login_required(&error, &connected.client.login_methods(), &agent.named);
            connected.close().await;
            return Err(failure);
        }
    };
    let content: Json = json!([{"type": "text", "text": prompt}]).into();
    let outcome = plain::run(&mut chat, &content, form, policy).await;
    chat.close().await;
    outcome
}

/// Talks on the terminal.
async fn talk(
    store: &Arc<dyn Store>,
    server: &ChatServer,
    mut choice: ChatSession,
    mut first: Option<String>,
    agent: &ChatAgent,
    policy: PermissionPolicy,
) -> Result<(), Failure> {
    let unasked = Some(policy).filter(|policy| *policy != PermissionPolicy::RejectAndFail);
    let _quiet = QuietKeyboard::begin();
    let mut from = choice.shown_from(store.as_ref()).await?;
    loop {
        let (said, cwd) = match &choice {
            ChatSession::New { cwd } => (SaidAnything::No, PathBuf::from(cwd)),
            ChatSession::Existing(row) => (SaidAnything::Yes, PathBuf::from(&row.cwd)),
        };
        let opening = OpeningScreen::new(unasked).open(server, &agent.choice, &choice, &from);
        let (chat, opening) = opening.await?;
        let history = Paths::from_environment()?.chat_history()?;
        let (own, named, program) = (store.clone(), agent.named.clone(), agent.choice.clone());
        let setup = TalkSetup { chat, store: own, opening, history, agent: named, program, said, cwd };
        let ChatEnd::StartAgain(id) = TerminalChat::new(setup)?.run(first.take()).await? else {
            return Ok(());
        };
        // What was said so far is on the screen.
        from = ReplayFrom::Nothing;
        if let Some(row) = store.find(&id).await? {
            choice = ChatSession::Existing(Box::new(row));
        }
    }
}

/// A new session in the current directory.
fn new_session() -> Result<ChatSession, Failure> {
    Ok(ChatSession::New { cwd: std::env::current_dir()?.display().to_string() })
}

/// The session that the command line names, or a new one, and its agent.
fn session_and_agent(
    named: Option<String>,
    agent: AgentArg,
    running: Option<&FoundServer>,
) -> Result<(ChatSession, AgentChoice), Failure> {
    let Some(named) = named else {
        return Ok((new_session()?, agent.for_new()?));
    };
    with_store(async |store| {
        let row = match named.as_str() {
            "" => resolve::choose(store.as_ref()).await?,
            named => resolve::resolve(store.as_ref(), named).await?,
        };
        let served =
            row.owner.as_ref().zip(running).is_some_and(|(owner, found)| owner.pid == found.greeting.pid);
        let agent = match agent.for_session(store.as_ref(), &row).await {
            // A session that is open keeps the agent that it has.
            Err(_) if served => AgentChoice::Assistant,
            agent => agent?,
        };
        Ok((ChatSession::Existing(Box::new(row)), agent))
    })
}

/// The prompt of the command line, or all of standard input.
fn prompt_without_terminal(prompt: Option<String>) -> Result<String, Failure> {
    let text = match prompt {
        Some(prompt) => prompt,
        None if stdin().is_terminal() => String::new(),
        None => {
            let mut bytes = Vec::new();
            stdin().lock().read_to_end(&mut bytes)?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    if text.trim().is_empty() {
        return Err(Failure::new(ExitCode::Usage, "there is no prompt")
            .hint("give it as an argument or on standard input"));
    }
    Ok(text)
}
