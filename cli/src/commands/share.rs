//! `rethread share`: makes, lists and revokes links with which anybody can look at one session.

use clap::{Args, Subcommand};
use rethread::clock;
use rethread_http::{SharedSession, StoredToken, Tokens};
use serde_json::{Value, json};

use super::token::validity;
use crate::changes::{JsonOption, ReportForm, report};
use crate::failure::{ExitCode, Failure};
use crate::output::escape::visible;
use crate::output::json::json_document;
use crate::output::stream::print;
use crate::paths::Paths;
use crate::resolve::SessionArg;
use crate::serving::find::{FoundServer, other_answer};
use crate::serving::handshake::{Answer, Ask};
use crate::stored_sessions::with_store;
use crate::time_span::TimeSpan;
use crate::tokens::{failure, with_tokens};

/// Options of `share`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ShareArgs {
    #[command(subcommand)]
    action: Option<ShareAction>,
    #[command(flatten)]
    new: NewShare,
}

#[derive(Debug, Args)]
struct NewShare {
    #[command(flatten)]
    session: SessionArg,
    /// How long the link works, such as 7d or 12h.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    expires: TimeSpan,
    /// Show what looks like keys, tokens and passwords, too.
    #[arg(long)]
    no_redact: bool,
    /// The address under which others reach the server. Otherwise it is where the running server listens.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum ShareAction {
    /// Lists the links, but not their secrets.
    List {
        #[command(flatten)]
        json: JsonOption,
    },
    /// Revokes a link. Pages that use it are disconnected within seconds.
    Revoke {
        /// The id of the link, as in the list.
        id: String,
        #[command(flatten)]
        json: JsonOption,
    },
}

/// Makes a link, or runs one of the actions.
pub(crate) fn run(args: &ShareArgs) -> Result<(), Failure> {
    let paths = Paths::from_environment()?;
    match &args.action {
        None => new(&paths, &args.new),
        Some(ShareAction::List { json }) => {
            with_tokens(&paths, async |tokens| list(&tokens, json.form()).await)
        }
        Some(ShareAction::Revoke { id, json }) => {
            with_tokens(&paths, async |tokens| revoke(&tokens, id, json.form()).await)
        }
    }
}

/// Prints the link alone, so that a script can take it; what it shows is for people.
fn new(paths: &Paths, share: &NewShare) -> Result<(), Failure> {
    let row = with_store(async |store| share.session.resolve(store.as_ref()).await)?;
    let base = match &share.url {
        Some(url) => checked(url)?,
        None => listening()?,
    };
    let shared = SharedSession { session: row.id.as_str().to_owned(), redact: !share.no_redact };
    let title = row.title.as_ref().map(|(title, _)| title.as_str()).filter(|title| !title.is_empty());
    let name = title.unwrap_or(row.id.as_str()).to_owned();
    let expires = clock::now().saturating_add(share.expires.0);
    let made =
        with_tokens(paths, async |tokens| tokens.add_share(&name, shared, expires).await.map_err(failure))?;
    let secrets = match share.no_redact {
        true => ", with all secrets that are in it",
        false => "; what looks like a key, a token or a password is replaced",
    };
    eprintln!(
        "Whoever has this link can read the session {} and what follows in it until {}{secrets}.\n\
         `rethread share revoke {}` revokes it.",
        visible(row.id.as_str()),
        clock::rfc3339(expires),
        made.stored.id
    );
    print(&format!("{base}/#share={}\n", made.text))
}

fn checked(url: &str) -> Result<String, Failure> {
    let plain = url.starts_with("http://") || url.starts_with("https://");
    match plain && !url.contains(['#', '?', '@']) {
        true => Ok(url.trim_end_matches('/').to_owned()),
        false => Err(Failure::new(ExitCode::Usage, format!("{url} is not an address of a server"))
            .hint("write it as https://HOST:PORT")),
    }
}

/// Where the running server listens.
fn listening() -> Result<String, Failure> {
    match FoundServer::running()?.ask(&Ask::Status)? {
        (Answer::Status(status), _) => {
            let http = status.addresses.into_iter().find(|address| address.starts_with("http"));
            http.ok_or_else(|| {
                Failure::new(ExitCode::Refused, "the server does not listen for HTTP (`--listen off`)")
            })
        }
        (Answer::Accepted | Answer::Refused { .. } | Answer::Page(_) | Answer::Stopping, _) => {
            Err(other_answer())
        }
    }
}

async fn list(tokens: &Tokens, form: ReportForm) -> Result<(), Failure> {
    let tokens = tokens.list().await.map_err(failure)?;
    let now = clock::now();
    let shares: Vec<(&StoredToken, &SharedSession)> =
        tokens.iter().filter_map(|token| Some((token, token.share.as_ref()?))).collect();
    match form {
        ReportForm::Json => {
            let shares: Vec<Value> =
                shares.iter().map(|(token, share)| document(token, share, now)).collect();
            print(&json_document(&json!({"shares": shares})))
        }
        ReportForm::Text if shares.is_empty() => print("There are no links.\n"),
        ReportForm::Text => {
            let line = |(token, share): &(&StoredToken, &SharedSession)| {
                let (id, session, name) = (visible(&token.id), visible(&share.session), visible(&token.name));
                let redacted = if share.redact { "" } else { "  with secrets" };
                format!("{id}  {session}  {name}  {}{redacted}\n", validity(token, now))
            };
            print(&shares.iter().map(line).collect::<String>())
        }
    }
}

fn document(token: &StoredToken, share: &SharedSession, now: u64) -> Value {
    json!({
        "id": token.id, "session": share.session, "name": token.name, "redact": share.redact,
        "createdAt": clock::rfc3339(token.created), "expiresAt": token.expires.map(clock::rfc3339),
        "valid": token.is_valid_at(now),
    })
}

async fn revoke(tokens: &Tokens, id: &str, form: ReportForm) -> Result<(), Failure> {
    let known = tokens.list().await.map_err(failure)?;
    if !known.iter().any(|token| token.id == id && token.share.is_some()) {
        return Err(Failure::new(ExitCode::NotFound, format!("no link has the id {id}"))
            .hint("`rethread share list` shows the links"));
    }
    let token = tokens.revoke(id).await.map_err(failure)?;
    let sentence = format!("Revoked the link to {} ({}).", visible(&token.name), visible(&token.id));
    report(form, &sentence, &json!({"id": token.id, "revoked": true}))
}
