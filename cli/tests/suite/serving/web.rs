//! `rethread web`: the browser gets an address with a code; nothing of it is printed, except on a terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rethread::edge::Version;
use rethread_testkit::program::Home;
use serde_json::{Value, json};

use super::http::{configure, request, url};
use super::{home, run, stderr, stdout};
use crate::pseudo_terminal::OnTerminal;

/// A folder with a program in place of the one that opens a browser. It writes its argument and its environment to a file.
fn opener(home: &Home, code: u8) -> (PathBuf, PathBuf) {
    let (folder, file) = (home.beside().join("bin"), home.beside().join("opened"));
    fs::create_dir_all(&folder).expect("a folder can be made");
    let program = folder.join("xdg-open");
    let text = format!("#!/bin/sh\n{{ echo \"$1\"; env; }} > '{}'\nexit {code}\n", file.display());
    fs::write(&program, text).expect("it can be written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    (folder, file)
}

fn path_with(folder: &std::path::Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

#[tokio::test]
async fn the_browser_is_opened_with_a_code_that_is_not_printed() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let (folder, file) = opener(&home, 0);
    let mut command = home.command(&["web"]);
    command.env("PATH", path_with(&folder)).env("PGPASSWORD", "for the store");
    let opened = command.output().await.expect("it runs");
    assert_eq!(stdout(&opened), format!("Opened {}/ in the browser.\n", url(&server)), "{}", stderr(&opened));
    let seen = fs::read_to_string(&file).expect("it was run");
    let address = seen.lines().next().expect("it has an argument");
    let code =
        address.strip_prefix(&format!("{}/#code=", url(&server))).expect("the code is in the fragment");
    assert!(!seen.contains("RETHREAD_") && !seen.contains("PGPASSWORD"), "{seen}");

    let exchanged = request(&server, "POST", "/code", None, &json!({"code": code}).to_string()).await;
    assert_eq!(exchanged.0, 200, "{}", exchanged.1);
    let given: Value = serde_json::from_str(&exchanged.1).expect("it is JSON");
    let token = given["token"].as_str().expect("a token");
    assert_eq!(request(&server, "GET", "/readyz", Some(token), "").await.0, 200);
    let listed = stdout(&run(&home, &["token", "list"]).await);
    assert!(listed.contains("web page") && listed.contains("until "), "{listed}");
    let logs = logs(&home);
    assert!(!logs.is_empty() && !logs.contains(code) && !logs.contains(token), "{logs}");
}

fn logs(home: &Home) -> String {
    let folder = home.path().join("state/logs");
    let files = fs::read_dir(folder).expect("there are logs").flatten();
    files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect()
}

#[tokio::test]
async fn a_code_is_printed_only_on_a_terminal() {
    let home = home();
    configure(&home, Version::V1);
    let server = home.serve_http(&[]).await;
    let piped = run(&home, &["web", "--print"]).await;
    assert_eq!(piped.status.code(), Some(2));
    assert!(piped.stdout.is_empty() && !stderr(&piped).contains("#code="), "{}", stderr(&piped));
    let (folder, _) = opener(&home, 3);
    let mut failing = home.command(&["web"]);
    failing.env("PATH", path_with(&folder));
    let failing = failing.output().await.expect("it runs");
    assert_eq!(failing.status.code(), Some(1));
    assert!(failing.stdout.is_empty() && !stderr(&failing).contains("#code="), "{}", stderr(&failing));
    let (status, said) = OnTerminal::start(home.command(&["web", "--print"])).ends();
    assert!(status.success() && said.contains(&format!("{}/#code=", url(&server))), "{said}");
}

#[tokio::test]
async fn without_a_server_or_without_http_it_says_what_to_do() {
    let home = home();
    let none = run(&home, &["web"]).await;
    assert_eq!(none.status.code(), Some(3));
    assert!(stderr(&none).contains("`rethread serve` starts one"), "{}", stderr(&none));
    let _server = home.serve(&[]).await;
    let off = run(&home, &["web"]).await;
    assert_eq!(off.status.code(), Some(4));
    assert!(stderr(&off).contains("--listen off"), "{}", stderr(&off));
}
