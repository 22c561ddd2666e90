//! The HTTP server of the official SDK with an agent that does paced turns, in a copy of this program: the base for the
//! load of a server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use agent_client_protocol::{Agent, Client, ConnectTo, Responder, UntypedMessage, V1};
use agent_client_protocol_http::AcpHttpServer;
use serde_json::{Value, json};

use crate::agent::{Turn, stamp};
use crate::load_clients::Address;
use crate::server::ServerProcess;

/// The argument that selects this server.
pub(crate) const FLAG: &str = "--be-the-sdk-server";

/// Starts it.
pub(crate) fn start() -> (ServerProcess, Address) {
    let program = std::env::current_exe().expect("a program has a path");
    let mut command = Command::new(program);
    let mut process = command.arg(FLAG).stdout(Stdio::piped()).spawn().expect("the server starts");
    let mut host = String::new();
    let output = process.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut host).expect("it says where it listens");
    (ServerProcess(process), Address { host: host.trim().to_owned(), token: None })
}

/// Serves until it is killed.
#[expect(clippy::print_stdout, reason = "the bench reads the address")]
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        println!("{}", listener.local_addr().expect("it is bound"));
        let router = AcpHttpServer::new(agent).into_router();
        axum::serve(listener, router).await.expect("it serves");
    });
}

fn agent() -> impl ConnectTo<Client> {
    Agent.v1().on_receive_request(
        async |request: UntypedMessage, responder: Responder<Value, V1>, connection| match request.method() {
            "initialize" => responder.respond(json!({"protocolVersion": 1, "agentCapabilities": {}})),
            "session/new" => responder.respond(json!({"sessionId": new_session()})),
            "session/prompt" => {
                let session = request.params()["sessionId"].as_str().unwrap_or_default().to_owned();
                let text = request.params()["prompt"][0]["text"].as_str().unwrap_or_default();
                let Some(Turn::Paced { chunks, pause }) = Turn::parse(text) else {
                    return Err(agent_client_protocol::Error::invalid_params());
                };
                let sender = connection.clone();
                tokio::spawn(async move {
                    let mut ticks = tokio::time::interval(pause);
                    for _ in 0..chunks {
                        ticks.tick().await;
                        let content = json!({"type": "text", "text": stamp()});
                        let update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": content});
                        let params = json!({"sessionId": session, "update": update});
                        let message = UntypedMessage::new("session/update", params).expect("it is an object");
                        sender.send_notification(message).expect("the client is there");
                    }
                    responder.respond(json!({"stopReason": "end_turn"})).expect("the client is there");
                });
                Ok(())
            }
            method => Err(agent_client_protocol::Error::method_not_found().data(method)),
        },
        agent_client_protocol::on_receive_request!(),
    )
}

fn new_session() -> String {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    format!("session-{}", LAST.fetch_add(1, Ordering::Relaxed))
}
