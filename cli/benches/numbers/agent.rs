//! A benchmark agent that sends chunks as fast as possible, one write per line. Runs as a copy of this program. The
//! text of the prompt is the number of chunks.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

/// The argument that selects this agent.
pub(crate) const FLAG: &str = "--be-the-agent";

/// The text of a chunk; its number makes all of them different.
pub(crate) fn word(number: usize) -> String {
    format!("word {number} ")
}

/// Serves stdin and stdout.
pub(crate) fn run() {
    let mut out = std::io::stdout().lock();
    let (mut sessions, mut prompts) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = serde_json::from_str::<Value>(&line.expect("stdin is text")) else { continue };
        match request["method"].as_str() {
            Some("initialize") => {
                answer(&mut out, &request, json!({"protocolVersion": 1, "agentCapabilities": {}}))
            }
            Some("session/new") => {
                sessions += 1;
                answer(&mut out, &request, json!({"sessionId": format!("bench-{sessions}")}));
            }
            Some("session/prompt") => {
                prompts += 1;
                prompt(&mut out, &request, prompts);
            }
            _ => {}
        }
    }
}

fn prompt(out: &mut impl Write, request: &Value, prompts: usize) {
    let session = request["params"]["sessionId"].as_str().unwrap_or_default();
    let text = request["params"]["prompt"][0]["text"].as_str().unwrap_or_default();
    let mut words = text.split(' ');
    let count: usize = words.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    for number in 0..count {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"{session}\",\"update\":\
             {{\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"m{prompts}\",\"content\":{{\"type\":\"text\",\
             \"text\":\"{}\"}}}}}}}}\n",
            word(number)
        );
        out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("somebody reads");
    }
    if let Some(path) = words.next() {
        std::fs::write(path, "done").expect("the bench has a folder for it");
    }
    answer(out, request, json!({"stopReason": "end_turn"}));
}

fn answer(out: &mut impl Write, request: &Value, result: Value) {
    let line = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string() + "\n";
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).expect("somebody reads");
}
