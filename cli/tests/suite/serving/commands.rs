//! Commands while a server runs: they change the sessions that it has open, and `chat` is one of its clients.

use rethread::edge::Version;
use rethread_testkit::program::{Home, Program, ServerProgram};
use serde_json::{Value, json};

use super::{home, run, stderr, stdout};

/// A server with a session of an editor, which is attached.
async fn served(home: &Home) -> (ServerProgram, Program, String) {
    let server = home.serve(&[]).await;
    let program = home.ready(Version::V1, Version::V1).await;
    let session = program.client.new_session().await;
    program.client.prompt(&session, "say one").await;
    (server, program, session)
}

#[tokio::test]
async fn commands_change_sessions_that_the_server_has_open() {
    let home = home();
    let (_server, program, session) = served(&home).await;
    let renamed = run(&home, &["rename", &session, "Mine"]).await;
    assert!(renamed.status.success(), "{}", stderr(&renamed));
    let titled = |update: &Value| update["title"] == "Mine";
    program.client.wait_update(0, &session, "the title", titled).await;
    assert_eq!(program.client.prompt(&session, "say two").await.stop, "end_turn", "it is open still");

    let archived = run(&home, &["archive", &session, "--json"]).await;
    assert!(archived.status.success(), "{}", stderr(&archived));
    let listed: Value =
        serde_json::from_slice(&run(&home, &["list", "--all", "--json"]).await.stdout).expect("it is JSON");
    assert_eq!(listed["sessions"], json!([]), "{listed}");

    let other = program.client.new_session().await;
    program.client.prompt(&other, "say three").await;
    let deleted = run(&home, &["delete", &other, "--yes"]).await;
    assert!(deleted.status.success(), "{}", stderr(&deleted));
    assert_eq!(run(&home, &["show", &other]).await.status.code(), Some(3));
}

#[tokio::test]
async fn a_session_of_the_server_is_moved_when_it_is_idle() {
    let home = home();
    let (_server, program, session) = served(&home).await;
    let folder = home.beside().display().to_string();
    let moved = run(&home, &["move", &session, &folder]).await;
    assert!(moved.status.success(), "{}", stderr(&moved));
    program.client.load_in(&folder, &session).await;
    program.client.begin_prompt(&session, "say two; hang").await;
    let said = |update: &Value| update["content"]["text"] == "two";
    program.client.wait_update(0, &session, "two", said).await;
    let refused = run(&home, &["move", &session, "/"]).await;
    assert_eq!(refused.status.code(), Some(4), "{}", stderr(&refused));
}

#[tokio::test]
async fn a_list_says_how_many_clients_are_attached() {
    let home = home();
    let (_server, _program, session) = served(&home).await;
    let other = home.ready(Version::V2, Version::V1).await;
    let listed = async || {
        let list = run(&home, &["list", "--all", "--json"]).await;
        let list: Value = serde_json::from_slice(&list.stdout).expect("it is JSON");
        list["sessions"][0]["clients"].clone()
    };
    assert_eq!(listed().await, json!(1));
    other.client.load(&session).await;
    assert_eq!(listed().await, json!(2));
    let table = stdout(&run(&home, &["list", "--all"]).await);
    assert!(table.contains("clients"), "{table}");
}

#[tokio::test]
async fn a_chat_joins_the_session_of_an_editor() {
    let home = home();
    let (_server, program, session) = served(&home).await;
    // The agent is only a command, without a name: the session keeps the one that it has.
    let chat = run(&home, &["chat", "--yes", "--resume", &session, "say from the chat"]).await;
    assert!(chat.status.success(), "{}", stderr(&chat));
    assert_eq!(stdout(&chat), "from the chat\n");
    let said = |update: &Value| update["content"]["text"] == "from the chat";
    program.client.wait_update(0, &session, "the chat's turn", said).await;
    assert_eq!(program.client.view(&session).user(), ["say one", "say from the chat"]);
}

#[tokio::test]
async fn a_new_chat_is_a_session_of_the_server() {
    let home = home();
    let _server = home.serve(&[]).await;
    let mut words = vec!["chat".to_owned(), "--yes".to_owned(), "say hello".to_owned(), "--".to_owned()];
    words.extend(home.scripted(Version::V2).iter().map(|word| word.to_string_lossy().into_owned()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let chat = run(&home, &words).await;
    assert_eq!(stdout(&chat), "hello\n", "{}", stderr(&chat));
    let status = run(&home, &["serve", "--status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).expect("it is JSON");
    assert_eq!((&status["clients"], &status["sessions"]["open"]), (&json!(0), &json!(1)));
}
