//! Choosing a store: by option, variable and configuration; what is wrong with an address, without its password; copying a store
//! to PostgreSQL and back. What needs a server is skipped, and says so, unless `RETHREAD_TEST_POSTGRES` is set.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use rethread::edge::Version;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::program::Home;

/// The user that a server of the tests runs as, if they run as root.
const NOBODY: u32 = 65534;

fn home() -> Home {
    Home::new(env!("CARGO_BIN_EXE_rethread"))
}

async fn run(home: &Home, args: &[&str], store: Option<&str>) -> Output {
    let mut command = home.command(args);
    match store {
        Some(store) => command.env("RETHREAD_STORE", store),
        None => command.env_remove("RETHREAD_STORE"),
    };
    command.output().await.expect("the program can be started")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_exit_5_without_the_password() {
    let home = home();
    for wrong in [
        "mysql://me:s3cret@localhost/x",
        "postgres://me:s3cret@127.0.0.1:1/x",
        "postgres://me:s3cret@127.0.0.1:1/x?sslmode=prefer",
        "postgres://127.0.0.1/x?password=s3cret",
    ] {
        for args in [&["list", "--store", wrong][..], &["list"], &["search", "word"], &["doctor"]] {
            let variable = (!args.contains(&"--store")).then_some(wrong);
            let output = run(&home, args, variable).await;
            let said = said(&output);
            assert_eq!(output.status.code(), Some(5), "{args:?} {wrong}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
            assert!(said.contains("hint: "), "{said}");
        }
    }
    assert!(!home.path().join("rethread.db").exists(), "nothing is stored elsewhere");
}

#[tokio::test]
async fn the_configuration_names_a_store_and_does_not_show_its_password() {
    let home = home();
    fs::create_dir_all(home.path()).expect("a folder can be made");
    let config = home.path().join("config.toml");
    for text in [
        "store = \"postgres://me:s3cret@127.0.0.1:1/x\"\n",
        "[store]\naddress = \"postgres://me:s3cret@127.0.0.1:1/x\"\nkeep_days = 3\n",
        // A mistake elsewhere must not send sessions to another store.
        "store = \"postgres://me:s3cret@127.0.0.1:1/x\"\nnonsense = 1\n",
    ] {
        fs::write(&config, text).expect("the folder is writable");
        let output = run(&home, &["list"], None).await;
        assert_eq!(output.status.code(), Some(5), "{text}: {}", said(&output));
        assert!(said(&output).contains("postgres://me@127.0.0.1:1/x"), "{}", said(&output));
        let shown = said(&run(&home, &["config", "show"], None).await);
        assert!(!shown.contains("s3cret"), "{shown}");
        // The option goes before it.
        assert_eq!(run(&home, &["list", "--store", "embedded"], None).await.status.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_copied_by_the_command_both_ways() {
    let Some(server) = PostgresServer::shared() else { return };
    let (home, url) = (home(), server.database_url());
    let mut command = home.acp(&home.scripted(Version::V1));
    command.env_remove("RETHREAD_STORE");
    let mut running = rethread_testkit::program::Program::start(command, Version::V1);
    running.client.initialize().await;
    let session = running.client.new_session().await;
    running.client.prompt(&session, "say copied").await;
    running.kill().await;
    let copied = run(&home, &["store", "copy", "embedded", &url], None).await;
    assert!(copied.status.success() && said(&copied).starts_with("Copied 1 session"), "{}", said(&copied));
    assert!(!said(&copied).contains("tests-only"), "{}", said(&copied));
    let shown = run(&home, &["show", &session], Some(&url)).await;
    assert!(said(&shown).contains("copied"), "{}", said(&shown));
    let found = run(&home, &["search", "copied"], Some(&url)).await;
    assert!(found.status.success(), "{}", said(&found));
    let doctor = run(&home, &["doctor"], Some(&url)).await;
    assert!(
        said(&doctor).contains("PostgreSQL") && said(&doctor).contains("fsync is off"),
        "{}",
        said(&doctor)
    );
    assert_eq!(doctor.status.code(), Some(5), "the server of the tests does not sync");
    let other = self::home();
    let back = run(&other, &["store", "copy", &url, "embedded"], None).await;
    assert!(back.status.success(), "{}", said(&back));
    let first = run(&home, &["export", &session], None).await;
    let second = run(&other, &["export", &session], None).await;
    assert_eq!(String::from_utf8_lossy(&first.stdout), String::from_utf8_lossy(&second.stdout));
}

/// The key of a server must belong to the user that it runs as, and to nobody else.
fn give_to_server(file: &Path) {
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    // SAFETY: a call without arguments that cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        std::os::unix::fs::chown(file, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_tls_must_have_the_right_certificate() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    let [certificate, key, other] = ["cert.pem", "key.pem", "other.pem"].map(|name| folder.path().join(name));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("it can be made");
    let another = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("it can be made");
    fs::write(&certificate, made.cert.pem()).expect("the folder is writable");
    fs::write(&key, made.signing_key.serialize_pem()).expect("the folder is writable");
    fs::write(&other, another.cert.pem()).expect("the folder is writable");
    give_to_server(&key);
    let settings = [
        "ssl = on".to_owned(),
        format!("ssl_cert_file = '{}'", certificate.display()),
        format!("ssl_key_file = '{}'", key.display()),
    ];
    let Some(server) = PostgresServer::own(&settings.each_ref().map(String::as_str)) else { return };
    let (home, address) = (home(), server.database_url());
    let by_name = address.replace("127.0.0.1", "localhost");
    let (right, wrong) = (certificate.display(), other.display());
    for (url, code) in [
        (format!("{by_name}?sslmode=verify-full&sslrootcert={right}"), 0),
        (format!("{by_name}?sslmode=require"), 0),
        // Signed by another, for another name, and by nobody that the system trusts.
        (format!("{by_name}?sslmode=verify-full&sslrootcert={wrong}"), 5),
        (format!("{address}?sslmode=verify-full&sslrootcert={right}"), 5),
        (format!("{by_name}?sslmode=verify-full"), 5),
    ] {
        let output = run(&home, &["list"], Some(&url)).await;
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{url}: {said}");
        assert!(!said.contains("tests-only"), "{said}");
        assert!(code == 0 || said.contains("certificate"), "{url}: {said}");
    }
}
