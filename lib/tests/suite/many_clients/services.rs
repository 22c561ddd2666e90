//! Files and terminals when several clients follow: they belong to the client whose prompt runs, and terminals stay with
//! the client that made them.

use rethread::edge::Version;
use rethread_testkit::client::Client;
use rethread_testkit::{Pairing, pairings};
use serde_json::{Value, json};

use super::{Shared, VERSIONS};

fn asked(client: &Client, method: &str) -> usize {
    client.server_messages().iter().filter(|message| message["method"] == method).count()
}

/// A client of version 1 that reads files says who it is.
fn reads_files(client: &Client, name: &'static str) {
    client.on("fs/read_text_file", move |_| Some(Ok(json!({"content": name}))));
}

async fn files_are_read_by_the_client_whose_prompt_runs(pairing: Pairing) {
    let shared = Shared::of(pairing, Version::V1).await;
    reads_files(&shared.one, "one");
    reads_files(&shared.two, "two");
    shared.two.prompt(&shared.session, "fs a.txt").await;
    assert_eq!(shared.two.view(&shared.session).agent(), ["file: two"]);
    assert_eq!(asked(&shared.one, "fs/read_text_file"), 0);
    if pairing.client == Version::V1 {
        shared.one.prompt(&shared.session, "fs a.txt").await;
        assert_eq!(shared.one.view(&shared.session).agent(), ["file: two", "file: one"]);
        assert_eq!(asked(&shared.two, "fs/read_text_file"), 1);
    }
}

/// Both clients call their first terminal the same.
async fn terminals_of_two_clients_are_two_terminals(pairing: Pairing) {
    let shared = Shared::of(pairing, Version::V1).await;
    shared.two.prompt(&shared.session, "term").await;
    let terminal = |client: &Client, mark: usize| -> Vec<Value> {
        let updates = client.updates_since(mark, &shared.session).into_iter();
        let content = updates.filter_map(|update| update["content"].as_array().cloned()).flatten();
        content.filter(|item| item["type"] == "terminal").map(|item| item["terminalId"].clone()).collect()
    };
    assert_eq!(terminal(&shared.two, 0).first(), Some(&json!("client-term-1")), "its own id");
    if pairing.client == Version::V1 {
        assert!(terminal(&shared.one, 0).is_empty(), "others see text");
        let mark = shared.one.mark();
        shared.one.prompt(&shared.session, "term").await;
        assert_eq!(terminal(&shared.one, mark).first(), Some(&json!("client-term-1")));
        let creates = (asked(&shared.one, "terminal/create"), asked(&shared.two, "terminal/create"));
        assert_eq!(creates, (1, 1));
    }
}

/// Its client is gone: the terminal has ended, and the agent can go on.
async fn a_terminal_whose_client_left_has_ended(pairing: Pairing) {
    let shared = Shared::of(pairing, Version::V1).await;
    shared.two.on("terminal/wait_for_exit", |_| None);
    let mark = shared.one.mark();
    shared.two.begin_prompt(&shared.session, "term; say after").await;
    shared.two.wait_method("terminal/wait_for_exit").await;
    shared.two.disconnect().await;
    shared.sees(&shared.one, mark, "after").await;
}

/// A client that leaves in the middle of a request of the agent's does not leave the agent waiting.
async fn a_request_to_a_client_that_left_is_answered(pairing: Pairing) {
    for other in VERSIONS {
        let shared = Shared::of(pairing, other).await;
        shared.two.on("_test/echo", |_| None);
        let mark = shared.one.mark();
        shared.two.begin_prompt(&shared.session, "ext; say after").await;
        shared.two.wait_method("_test/echo").await;
        assert_eq!(asked(&shared.one, "_test/echo"), 0, "the one whose prompt runs is asked");
        shared.two.disconnect().await;
        shared.sees(&shared.one, mark, "after").await;
    }
}

pairings!(agent V1:
    files_are_read_by_the_client_whose_prompt_runs,
    terminals_of_two_clients_are_two_terminals,
    a_terminal_whose_client_left_has_ended,
);
pairings!(a_request_to_a_client_that_left_is_answered);
