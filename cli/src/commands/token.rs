//! `rethread token`: makes, lists and revokes the tokens with which remote clients reach a server.

use clap::{Args, Subcommand, ValueEnum};
use rethread::clock;
use rethread::server::ClientRole;
use rethread_http::{StoredToken, Tokens};
use serde_json::{Value, json};

use crate::changes::{JsonOption, ReportForm, report};
use crate::failure::Failure;
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::paths::Paths;
use crate::time_span::TimeSpan;
use crate::tokens::{failure, with_tokens};

/// Options of `token`.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Makes a token, and prints it once.
    New {
        /// What the token is for.
        name: String,
        /// What it may do.
        #[arg(long, value_enum, default_value_t = TokenRole::Full)]
        role: TokenRole,
        /// How long it works, such as 30d or 12h. Without this it works until it is revoked.
        #[arg(long, value_name = "TIME")]
        expires: Option<TimeSpan>,
    },
    /// Lists the tokens, but not their texts.
    List {
        #[command(flatten)]
        json: JsonOption,
    },
    /// Revokes a token. Its connections are closed within seconds.
    Revoke {
        /// The id of the token, as in the list.
        id: String,
        #[command(flatten)]
        json: JsonOption,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TokenRole {
    /// Everything: prompting agents and allowing their commands.
    Full,
    /// Looking only.
    Observer,
}

/// Runs one of the actions.
pub(crate) fn run(args: &TokenArgs) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    if matches!(args.action, TokenAction::New { .. }) {
        paths.make_data()?;
    }
    with_tokens(&paths, async |tokens| match &args.action {
        TokenAction::New { name, role, expires } => {
            let role = match role {
                TokenRole::Full => ClientRole::Full,
                TokenRole::Observer => ClientRole::Observer,
            };
            let expires = expires.map(|span| clock::now().saturating_add(span.0));
            new(&tokens, name, role, expires).await
        }
        TokenAction::List { json } => list(&tokens, json.form()).await,
        TokenAction::Revoke { id, json } => {
            let token = tokens.revoke(id).await.map_err(failure)?;
            let sentence = format!("Revoked {} ({}).", visible(&token.name), visible(&token.id));
            report(json.form(), &sentence, &json!({"id": token.id, "revoked": true}))
        }
    })
}

/// Prints the token alone, so that a script can take it; what it is worth is for people.
async fn new(tokens: &Tokens, name: &str, role: ClientRole, expires: Option<u64>) -> Result<(), Failure> {
    let made = tokens.add(name, role, expires).await.map_err(failure)?;
    let worth = match role {
        ClientRole::Full => {
            "Whoever has this token can prompt agents and allow their commands: it is worth a shell as your user.\n\
             There is no separation between the holders of tokens."
        }
        ClientRole::Observer => "Whoever has this token can read all sessions.",
    };
    eprintln!(
        "{worth}\nIt is not stored and not shown again. `rethread token revoke {}` revokes it.",
        made.stored.id
    );
    print(&format!("{}\n", made.text))
}

async fn list(tokens: &Tokens, form: ReportForm) -> Result<(), Failure> {
    let tokens = tokens.list().await.map_err(failure)?;
    let now = clock::now();
    match form {
        ReportForm::Json => {
            let tokens: Vec<Value> = tokens.iter().map(|token| document(token, now)).collect();
            print(&json_document(&json!({"tokens": tokens})))
        }
        ReportForm::Text if tokens.is_empty() => print("There are no tokens.\n"),
        ReportForm::Text => print(&tokens.iter().map(|token| line(token, now)).collect::<String>()),
    }
}

fn document(token: &StoredToken, now: u64) -> Value {
    json!({
        "id": token.id, "name": token.name, "role": token.client_role().name(), "kind": token.kind.name(),
        "createdAt": clock::rfc3339(token.created), "expiresAt": token.expires.map(clock::rfc3339),
        "valid": token.is_valid_at(now),
    })
}

fn line(token: &StoredToken, now: u64) -> String {
    let (id, name) = (visible(&token.id), visible(&token.name));
    format!("{id}  {:8}  {name}  {}\n", token.client_role().name(), validity(token, now))
}

/// Until when a token works.
pub(super) fn validity(token: &StoredToken, now: u64) -> String {
    match token.expires {
        None => "until it is revoked".to_owned(),
        Some(at) if token.is_valid_at(now) => format!("until {}", clock::rfc3339(at)),
        Some(at) => format!("expired {}", clock::rfc3339(at)),
    }
}
