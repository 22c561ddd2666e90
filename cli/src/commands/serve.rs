//! `rethread serve`: runs the server of this store, shows how it is, or ends it.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use rethread::server::Config;
use rethread_core::Millis;
use serde_json::json;

use crate::changes::{JsonOption, ReportForm, report};
use crate::commands::acp::IdleMinutes;
use crate::failure::{ExitCode, Failure};
use crate::log::LogLevel;
use crate::output::age::age;
use crate::output::escape::visible;
use crate::serving::find::{FoundServer, other_answer};
use crate::serving::handshake::{Answer, Ask, Greeting, ServerState, ServerStatus};
use crate::serving::http::{HttpOptions, PlainHttp};
use crate::serving::process::{self, ServeOptions};

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The path of the unix socket, in a folder that only you can use.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The address for HTTP and WebSocket, or `off`. One that other machines can reach needs TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7373")]
    listen: String,
    /// The file with the certificate chain for TLS, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The file with the key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen beyond this machine without TLS: everybody on the way can read everything, the tokens included.
    #[arg(long)]
    insecure_plain_http: bool,
    /// A name under which clients reach the server, besides those of this machine.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// The address under which other hosts of a shared store reach this one, such as `https://a.example:7373`. By default it
    /// is where the server listens.
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<String>,
    /// A web page that may use the server, such as `https://app.example`.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// How many clients may be connected.
    #[arg(long, value_name = "NUMBER", default_value_t = 1024)]
    max_clients: usize,
    /// The number of seconds that running turns get when the server is asked to end. Otherwise it is `stop_seconds` of the
    /// configuration, or 30.
    #[arg(long, value_name = "SECONDS")]
    stop_seconds: Option<u64>,
    /// The number of minutes without activity after which a session releases its agent, and is closed if no client is
    /// attached.
    #[arg(long, value_name = "MINUTES", default_value_t = IdleMinutes::default())]
    idle_minutes: IdleMinutes,
    /// The least severe events to write to the log.
    #[arg(long, value_enum, default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// Show how the running server is.
    #[arg(long, conflicts_with_all = ["stop", "socket", "stop_seconds"])]
    status: bool,
    /// End the running server, and wait until it has ended.
    #[arg(long, conflicts_with_all = ["socket", "stop_seconds"])]
    stop: bool,
    /// Let the sessions of the running server go, each when its turn has ended, then end it, and wait until it has ended. Other hosts of
    /// the store can take the sessions.
    #[arg(long, conflicts_with_all = ["status", "stop", "socket", "stop_seconds"])]
    drain: bool,
    /// The number of seconds that running turns get with `--drain`.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "drain")]
    drain_seconds: u64,
    #[command(flatten)]
    json: JsonOption,
}

/// Runs the server, or asks the running one.
pub(crate) fn run(args: &ServeArgs) -> Result<(), Failure> {
    match (args.status, args.stop, args.drain) {
        (true, _, _) => status(args.json.form()),
        (false, true, _) => end(&Ask::Stop, "Stopped", args.json.form()),
        (false, false, true) => end(&Ask::Drain { seconds: args.drain_seconds }, "Drained", args.json.form()),
        (false, false, false) => process::run(ServeOptions {
            socket: args.socket.as_ref().map(std::path::absolute).transpose()?,
            http: http(args)?,
            most_clients: args.max_clients,
            stop_seconds: args.stop_seconds,
            config: Config { idle_limit: args.idle_minutes.limit(), ..Config::default() },
            log_level: args.log_level,
        }),
    }
}

/// Where HTTP is served.
fn http(args: &ServeArgs) -> Result<Option<HttpOptions>, Failure> {
    if args.listen == "off" {
        return Ok(None);
    }
    let address = args.listen.parse().map_err(|_| {
        let message = format!("{} is not an address with a port", args.listen);
        Failure::new(ExitCode::Usage, message).hint("write it as 127.0.0.1:7373 or [::1]:7373, or `off`")
    })?;
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let plain = if args.insecure_plain_http { PlainHttp::Anywhere } else { PlainHttp::Loopback };
    let (hosts, origins) = (args.allow_host.clone(), args.allow_origin.clone());
    let advertise = args.advertise.clone();
    let options = HttpOptions { address, tls, plain, hosts, origins, advertise };
    options.check()?;
    Ok(Some(options))
}

fn status(form: ReportForm) -> Result<(), Failure> {
    let found = FoundServer::running()?;
    let greeting = found.greeting.clone();
    match found.ask(&Ask::Status)? {
        (Answer::Status(status), _) => show(form, &greeting, &status),
        (Answer::Accepted | Answer::Refused { .. } | Answer::Page(_) | Answer::Stopping, _) => {
            Err(other_answer())
        }
    }
}

fn show(form: ReportForm, greeting: &Greeting, status: &ServerStatus) -> Result<(), Failure> {
    let state = match greeting.state {
        ServerState::Running => "running",
        ServerState::Stopping => "stopping",
    };
    let since: Millis = status.since;
    let started = match age(rethread::clock::now(), since) {
        now if now == "now" => "just now".to_owned(),
        long => format!("{long} ago"),
    };
    let ServerStatus { sessions, running, waiting, clients, addresses, .. } = status;
    let addresses_text: Vec<String> = addresses.iter().map(|address| visible(address).into_owned()).collect();
    let sentence = format!(
        "{state} in process {}, version {}, started {started}\n\
         listening on {}\n\
         {sessions} open sessions: {running} running, {waiting} waiting for an answer\n\
         {clients} clients",
        greeting.pid,
        visible(&greeting.version),
        addresses_text.join(", "),
    );
    let document = json!({
        "state": state, "pid": greeting.pid, "version": greeting.version,
        "since": rethread::clock::rfc3339(since), "addresses": addresses, "clients": clients,
        "sessions": {"open": sessions, "running": running, "waiting": waiting},
    });
    report(form, &sentence, &document)
}

/// Ends the running server, and waits until it has ended.
fn end(how: &Ask, done: &str, form: ReportForm) -> Result<(), Failure> {
    let found = FoundServer::running()?;
    let pid = found.greeting.pid;
    let (_, mut stream) = found.ask(how)?;
    // It ends with the process.
    let _ = stream.read_to_end(&mut Vec::new());
    report(form, &format!("{done} the server in process {pid}."), &json!({"pid": pid, "stopped": true}))
}
