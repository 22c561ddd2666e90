//! Calls every method that the server knows with a token for one session. The methods are read from the sources: one that is not
//! named here fails the test, so that somebody decides what a shared view may do with it.

use std::collections::BTreeSet;
use std::fs;

use rethread::edge::Version;
use rethread_http::SharedSession;
use rethread_testkit::checkout::sources;
use rethread_testkit::client::Client;
use serde_json::{Value, json};

use crate::fixture::Listening;
use crate::share::guest;

const NOT_ALLOWED: i64 = -32011;
const UNKNOWN_SESSION: i64 = -32002;
const UNKNOWN_METHOD: i64 = -32601;

/// What a shared view gets for a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gets {
    /// An answer about its own session; any other session does not exist for it.
    ItsSession,
    /// A refusal; another session does not exist for it.
    Refusal,
    /// A refusal, because the method is about all sessions, or about none.
    RefusalForAll,
    /// Nothing: there is no such request.
    NoSuchMethod,
    /// The text is no method.
    NoMethod,
}

use Gets::{ItsSession, NoMethod, NoSuchMethod, Refusal, RefusalForAll};

/// Who connects with the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    V1,
    V2,
    /// A client that uses the JetBrains extension.
    Air,
}

impl Guest {
    fn version(self) -> Version {
        match self {
            Self::V1 | Self::Air => Version::V1,
            Self::V2 => Version::V2,
        }
    }

    /// `version` has the method, the others do not.
    fn only(self, version: Version, gets: Gets) -> Gets {
        if self.version() == version { gets } else { NoSuchMethod }
    }
}

/// What this guest gets, and parameters that would be right for somebody who may do everything. `None` if the method is not
/// known to this test.
fn expected(guest: Guest, method: &str) -> Option<(Gets, Value)> {
    let known = match method {
        "session/resume" | "session/load" => (ItsSession, json!({"cwd": "/work", "mcpServers": []})),
        "session/status" | "_rethread/clients" | "_rethread/outline" | "_rethread/read"
        | "_rethread/unfollow" => (ItsSession, json!({})),
        "_rethread/follow" => (ItsSession, json!({"after": 0})),
        "_rethread/export" => (ItsSession, json!({"format": "markdown"})),
        "session/prompt" => (Refusal, json!({"prompt": [{"type": "text", "text": "say no"}]})),
        "session/fork" => (Refusal, json!({"cwd": "/work", "mcpServers": []})),
        "session/set_title" | "_session/rename" => (Refusal, json!({"title": "No"})),
        "session/close" | "session/delete" | "session/archive" | "session/unarchive" | "_session/archive"
        | "_session/unarchive" => (Refusal, json!({})),
        "session/set_config_option" => (Refusal, json!({"configId": "mode", "type": "id", "value": "b"})),
        "session/set_mode" => (guest.only(Version::V1, Refusal), json!({"modeId": "b"})),
        "session/set_model" => (guest.only(Version::V1, Refusal), json!({"modelId": "b"})),
        "tool_call/cancel" => (guest.only(Version::V2, Refusal), json!({"toolCallId": "call_1"})),
        "terminal/cancel" => (guest.only(Version::V2, Refusal), json!({"terminalId": "term_1"})),
        "authenticate" => (guest.only(Version::V1, RefusalForAll), json!({"methodId": "key"})),
        "logout" => (guest.only(Version::V1, RefusalForAll), json!({})),
        "auth/login" => (guest.only(Version::V2, RefusalForAll), json!({"methodId": "key"})),
        "auth/logout" => (guest.only(Version::V2, RefusalForAll), json!({})),
        "session/new" => (RefusalForAll, json!({"cwd": "/work", "mcpServers": []})),
        "session/list" | "_rethread/list/subscribe" | "_rethread/usage" => (RefusalForAll, json!({})),
        "_session/list/subscribe" => (RefusalForAll, json!({"cwd": "/work"})),
        "_rethread/search" => (RefusalForAll, json!({"query": "hidden"})),
        "_session/batch_get" => (RefusalForAll, json!({"sessionIds": []})),
        "_rethread/list/unsubscribe" | "_session/list/unsubscribe" => {
            (RefusalForAll, json!({"subscriptionId": "x"}))
        }
        // What is not the server's goes to the agent, which a shared view cannot reach.
        "elicitation/create" | "_session/list/changes" => (RefusalForAll, json!({})),
        // Notifications of clients, which are tried apart; what the server or an agent sends.
        "initialize"
        | "$/cancel_request"
        | "session/cancel"
        | "session/update"
        | "session/request_permission"
        | "fs/read_text_file"
        | "fs/write_text_file"
        | "_rethread/clients_changed"
        | "_rethread/followed"
        | "_rethread/list/changes"
        | "_rethread/login_changed"
        | "_rethread/question"
        | "_rethread/question_closed" => (NoSuchMethod, json!({})),
        "image/png" | "text/markdown" => (NoMethod, json!({})),
        _ => return None,
    };
    Some(known)
}

/// The methods that the sources name where requests are decoded, checked and carried out.
fn methods() -> BTreeSet<String> {
    let files = ["lib/src/edge", "lib/src/connection"].into_iter().flat_map(sources);
    let code = files.map(|path| {
        let text = fs::read_to_string(&path).expect("it can be read");
        let tests = text.find("#[cfg(test)]").unwrap_or(text.len());
        text[..tests].to_owned()
    });
    let literals = code.flat_map(|text| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect::<Vec<_>>()
    });
    literals.filter(|text| is_method(text)).collect()
}

fn is_method(text: &str) -> bool {
    let word = |part: &str| {
        let part = part.trim_start_matches(['_', '$']);
        part.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
    };
    let named = ["initialize", "authenticate", "logout"].contains(&text);
    named
        || (text.contains('/') && !text.ends_with('/') && !text.starts_with('/') && text.split('/').all(word))
}

/// Fails if the guest gets something else than it may.
async fn call(guest: &Client, method: &str, (gets, params): (Gets, Value), shown: &str, hidden: &str) {
    let about = |session: &str| {
        let mut params = params.clone();
        params["sessionId"] = json!(session);
        params
    };
    let code = async |params: Value| match guest.request(method, params).await {
        Ok(_) => 0,
        Err(error) => error["code"].as_i64().expect("a code"),
    };
    let found = (code(about(shown)).await, code(about(hidden)).await, code(params.clone()).await);
    let fits = match gets {
        ItsSession => found.0 == 0 && found.1 == UNKNOWN_SESSION,
        Refusal => found.0 == NOT_ALLOWED && found.1 == UNKNOWN_SESSION,
        // One that is relayed may name a session.
        RefusalForAll => {
            found.0 == NOT_ALLOWED
                && [NOT_ALLOWED, UNKNOWN_SESSION].contains(&found.1)
                && found.2 == NOT_ALLOWED
        }
        NoSuchMethod => found == (UNKNOWN_METHOD, UNKNOWN_METHOD, UNKNOWN_METHOD),
        NoMethod => true,
    };
    assert!(fits, "{method} gets {found:?} and should get {gets:?}");
}

#[tokio::test]
async fn every_method_is_tried_with_a_link() {
    let known = methods();
    assert!(known.len() > 40 && known.contains("session/prompt"), "the methods were found: {known:?}");
    let listening = Listening::start(Version::V2).await;
    let owner = listening.websocket(Version::V2).await;
    let shown = owner.new_session_in(&listening.cwd()).await;
    let hidden = owner.new_session_in(&listening.cwd()).await;
    owner.prompt(&shown, "say shown; title Shown").await;
    owner.prompt(&hidden, "say hidden").await;
    let share = SharedSession { session: shown.clone(), redact: true };
    let expires = rethread::clock::now() + 60_000;
    let token = listening.tokens.add_share("demo", share, expires).await.expect("it can be made").text;
    let before = listening.world.agent.received().len();

    for who in [Guest::V1, Guest::V2, Guest::Air] {
        let client = guest(&listening, &token, "", who.version()).await;
        let mut introduction = client.introduction();
        if who == Guest::Air {
            let air = json!({"jetbrains": {"air": {"version": 1, "capabilities": ["sessionIndex"]}}});
            introduction["clientCapabilities"]["_meta"] = air;
        }
        client.ask("initialize", introduction).await;
        for method in known.iter().filter(|method| *method != "initialize") {
            let known = expected(who, method);
            let known = known.unwrap_or_else(|| panic!("decide what a shared view gets for {method}"));
            call(&client, method, known, &shown, &hidden).await;
        }
        call(&client, "_agent/echo", (RefusalForAll, json!({})), &shown, &hidden).await;
        let said: String = client.server_messages().iter().map(Value::to_string).collect();
        assert!(!said.contains("say hidden"), "{said}");
    }
    assert_eq!(listening.world.agent.received().len(), before, "the agent heard nothing of it");
    let status = owner.ask("session/status", json!({"sessionId": shown})).await;
    assert!(!status.to_string().contains("\"No\""), "{status}");
}

#[tokio::test]
async fn a_link_cancels_nothing() {
    let listening = Listening::start(Version::V2).await;
    let owner = listening.websocket(Version::V2).await;
    let shown = owner.new_session_in(&listening.cwd()).await;
    let share = SharedSession { session: shown.clone(), redact: false };
    let expires = rethread::clock::now() + 60_000;
    let token = listening.tokens.add_share("demo", share, expires).await.expect("it can be made").text;
    let prompt = owner.begin_prompt(&shown, "say begun; wait gate; say done").await;
    owner.wait_update(0, &shown, "the beginning", |update| update.to_string().contains("begun")).await;
    let guest = guest(&listening, &token, "", Version::V2).await;
    guest.initialize().await;
    guest.resume(&shown).await;
    let before = listening.world.agent.received().len();
    for (method, params) in [
        ("session/cancel", json!({"sessionId": shown})),
        ("$/cancel_request", json!({"requestId": prompt})),
        ("_agent/note", json!({"sessionId": shown})),
        ("_agent/note", json!({})),
    ] {
        guest.notify(method, params).await;
    }
    // The server has read what came before this.
    guest.ask("session/status", json!({"sessionId": shown})).await;
    assert_eq!(listening.world.agent.received().len(), before, "the agent heard nothing of it");
    listening.world.agent.open_gate("gate");
    let turn = owner.finish(&shown, &prompt).await;
    assert_eq!(turn.stop, "end_turn", "{turn:?}");
}
