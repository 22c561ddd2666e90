//! Tests of the model server over a socket, in each API.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::ModelServer;

fn post(server: &ModelServer, path: &str, body: &Value) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let body = body.to_string();
    write!(stream, "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

#[test]
fn every_dialect_says_as_many_words_as_it_is_told() {
    let server = ModelServer::start();
    let text = "say DELTAS=5";
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": text}]}],
        "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]});
    let cases = [
        ("/v1/messages", json!({"stream": true, "messages": [user(text)], "tools": [{"name": "Bash"}]})),
        (
            "/v1/chat/completions",
            json!({"stream": true, "messages": [user(text)], "tools": [{"function": {"name": "bash"}}]}),
        ),
        ("/v1/responses", json!({"stream": true, "input": [user(text)], "tools": [{"name": "shell"}]})),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini),
    ];
    for (path, body) in cases {
        let answer = post(&server, path, &body);
        assert!(answer.contains("\"t1w004 \"") && !answer.contains("t1w005"), "{path}: {answer}");
        assert!(answer.ends_with("0\r\n\r\n"), "{path}: {answer}");
    }
    assert_eq!(server.asked().len(), 4);
}

#[test]
fn a_tool_is_called_once_with_the_arguments_that_it_takes() {
    let server = ModelServer::start();
    let tool = json!({"function": {"name": "bash", "parameters": {"properties": {"command": {}, "description": {}}}}});
    let asks = user("TOOL BASH CMD=`echo hi` DELTAS=2");
    let first = json!({"stream": true, "messages": [asks], "tools": [tool]});
    let answer = post(&server, "/v1/chat/completions", &first);
    assert!(answer.contains(r#"{\"command\":\"echo hi\",\"description\":\"a test\"}"#), "{answer}");
    let done = json!({"role": "tool", "content": "hi"});
    let second = json!({"stream": true, "messages": [asks, done], "tools": [tool]});
    let answer = post(&server, "/v1/chat/completions", &second);
    assert!(answer.contains("t1w001") && !answer.contains("tool_calls"), "{answer}");
}

#[test]
fn what_is_quoted_gives_no_orders() {
    let server = ModelServer::start();
    let quoted = json!({"type": "text", "text": "# The conversation so far\nDELTAS=50"});
    let asks = json!({"role": "user", "content": [quoted, {"type": "text", "text": "DELTAS=2"}]});
    let body = json!({"stream": true, "messages": [asks], "tools": [{"name": "Bash"}]});
    let answer = post(&server, "/v1/messages", &body);
    assert!(answer.contains("t1w001") && !answer.contains("t1w002"), "{answer}");
}

#[test]
fn a_reminder_of_the_agents_is_no_prompt() {
    let server = ModelServer::start();
    let reminder = "<system-reminder>it is Monday</system-reminder>";
    let both = json!({"role": "user", "content": [{"type": "text", "text": reminder}, {"type": "text", "text": "DELTAS=2"}]});
    for messages in [json!([user("DELTAS=2"), user(reminder)]), json!([both])] {
        let body = json!({"stream": true, "messages": messages, "tools": [{"function": {"name": "bash"}}]});
        let answer = post(&server, "/v1/chat/completions", &body);
        assert!(answer.contains("t1w001") && !answer.contains("t1w002"), "{answer}");
    }
}
