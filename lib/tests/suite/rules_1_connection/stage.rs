//! Checks that a connection still answers or refuses a line, and the parameters of `initialize`, for the scenarios of rule 1.

use rethread_testkit::client::Client;
use serde_json::{Value, json};

/// Asserts that the connection still answers.
pub(super) async fn works(client: &Client) {
    client.ask("session/list", json!({})).await;
}

/// Sends a line as it is and gives the error that answers it with this id.
pub(super) async fn refused_line(client: &Client, line: &[u8], id: &Value) -> Value {
    client.send_bytes(line).await;
    client.send_bytes(b"\n").await;
    client.answer(id).await.expect_err("a bad line is refused")
}

/// The parameters of `initialize` for this version.
pub(super) fn introduction(version: u64) -> Value {
    json!({"protocolVersion": version, "info": {"name": "test", "version": "0"}, "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}, "clientCapabilities": {}})
}
