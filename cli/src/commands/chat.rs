//! `rethread chat`: talks to an agent, in a terminal or with one prompt.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, stdin, stdout};
use std::path::PathBuf;

use clap::Args;
use rethread::edge::client_request::ReplayFrom;
use rethread::server::Config;
use rethread_core::Json;
use serde_json::json;

use crate::agents::AgentChoice;
use crate::changes::{JsonOption, ReportForm};
use crate::chat::agent::AgentArg;
use crate::chat::{
    ChatEnd, ChatSession, Connected, Conversation, LoginPolicy, Opened, OpeningScreen, PermissionPolicy,
    QuietKeyboard, SaidAnything, TalkSetup, TerminalChat, login_required, plain,
};
use crate::failure::{ExitCode, Failure};
use crate::log::LogLevel;
use crate::paths::Paths;
use crate::resolve;
use crate::server_parts::ServerParts;
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
    let agent = AgentArg::of(args.agent, args.command);
    let named = if args.last { Some("@last".to_owned()) } else { args.resume };
    let (choice, agent_choice) = session_and_agent(named, agent.clone())?;
    choice.check()?;
    let agent = ChatAgent { named: agent, choice: agent_choice.clone() };
    let (parts, opened) = ServerParts::prepare(agent_choice, Config::default(), LogLevel::Info)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        opened.wait().await?;
        match prompt {
            Some(prompt) if !on_terminal => send(&parts, &choice, &agent, &prompt, form, policy).await,
            prompt => talk(&parts, choice, prompt, &agent, policy).await,
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

/// Sends one prompt without a terminal.
async fn send(
    parts: &ServerParts,
    choice: &ChatSession,
    agent: &ChatAgent,
    prompt: &str,
    form: ReportForm,
    policy: PermissionPolicy,
) -> Result<(), Failure> {
    let connected = Connected::to(parts.server(), LoginPolicy::Fail).await?;
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
    parts: &ServerParts,
    mut choice: ChatSession,
    mut first: Option<String>,
    agent: &ChatAgent,
    policy: PermissionPolicy,
) -> Result<(), Failure> {
    let unasked = Some(policy).filter(|policy| *policy != PermissionPolicy::RejectAndFail);
    let _quiet = QuietKeyboard::begin();
    let (store, server) = (parts.store.clone(), parts.server());
    let mut from = choice.shown_from(store.as_ref()).await?;
    loop {
        let (said, cwd) = match &choice {
            ChatSession::New { cwd } => (SaidAnything::No, PathBuf::from(cwd)),
            ChatSession::Existing(row) => (SaidAnything::Yes, PathBuf::from(&row.cwd)),
        };
        let opening = OpeningScreen::new(unasked).open(&server, &agent.choice, &choice, &from);
        let (chat, opening) = opening.await?;
        let history = Paths::from_environment()?.chat_history()?;
        let (store, named, program) = (store.clone(), agent.named.clone(), agent.choice.clone());
        let setup = TalkSetup { chat, store, opening, history, agent: named, program, said, cwd };
        let ChatEnd::StartAgain(id) = TerminalChat::new(setup)?.run(first.take()).await? else {
            return Ok(());
        };
        // What was said so far is on the screen.
        from = ReplayFrom::Nothing;
        if let Some(row) = parts.store.find(&id).await? {
            choice = ChatSession::Existing(Box::new(row));
        }
    }
}

/// The session that the command line names, or a new one, and its agent.
fn session_and_agent(named: Option<String>, agent: AgentArg) -> Result<(ChatSession, AgentChoice), Failure> {
    let Some(named) = named else {
        let cwd = std::env::current_dir()?.display().to_string();
        return Ok((ChatSession::New { cwd }, agent.for_new()?));
    };
    with_store(async |store| {
        let row = match named.as_str() {
            "" => resolve::choose(store.as_ref()).await?,
            named => resolve::resolve(store.as_ref(), named).await?,
        };
        let agent = agent.for_session(store.as_ref(), &row).await?;
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
