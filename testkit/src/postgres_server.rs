//! A PostgreSQL server for tests: started as an ordinary user in a temporary folder, with a socket and a loopback port of its
//! own, and a database for each test. It runs if `RETHREAD_TEST_POSTGRES` is set, and ends with the process that started it.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rethread::store::postgres::{PostgresAddress, PostgresStore};
use tempfile::TempDir;

/// The environment variable that has tests use PostgreSQL: the folder of its programs, or `1` to look for them.
pub const ON_POSTGRES: &str = "RETHREAD_TEST_POSTGRES";

/// The role that tests log in with: not a superuser.
const ROLE: &str = "rethread_tests";
const PASSWORD: &str = "tests-only";

/// The user that the server runs as, if the tests run as root: PostgreSQL refuses root.
const NOBODY: u32 = 65534;

/// A running server.
pub struct PostgresServer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    process: Mutex<Option<Child>>,
    /// The process that ends the server with the tests, and the pipe that tells it.
    ties: Mutex<Option<(Option<ChildStdin>, Child)>>,
    databases: AtomicUsize,
}

impl PostgresServer {
    /// The server of this process, which is started with the first call. Nothing if the tests are not to use PostgreSQL.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        let start = || programs().map(|programs| Self::start(programs, &[]));
        let server = SERVER.get_or_init(start).as_ref();
        if server.is_none() {
            skipped();
        }
        server
    }

    /// A server of this test alone, which it may stop. Nothing if the tests are not to use PostgreSQL.
    pub fn own(settings: &[&str]) -> Option<Self> {
        let server = programs().map(|programs| Self::start(programs, settings));
        if server.is_none() {
            skipped();
        }
        server
    }

    fn start(programs: PathBuf, settings: &[&str]) -> Self {
        let server = Self::prepared(programs);
        server.init();
        server.configure(settings);
        server.run();
        server.sql("postgres", &format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'"));
        server.sql("postgres", &format!("CREATE DATABASE template_of_tests OWNER {ROLE}"));
        // Opening a store makes its schema, once for all tests.
        drop(PostgresStore::open(&server.address_of("template_of_tests")).expect("a new store opens"));
        server
    }

    /// A new database with an empty store.
    pub fn database(&self) -> PostgresAddress {
        self.address_of(&self.new_database())
    }

    /// The address of a new database as text, with its password.
    pub fn database_url(&self) -> String {
        self.url_of(&self.new_database())
    }

    /// Makes a new database with an empty store, and returns its name.
    pub fn new_database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made =
            format!("CREATE DATABASE {name} TEMPLATE template_of_tests OWNER {ROLE} STRATEGY file_copy");
        self.sql("postgres", &made);
        name
    }

    /// The address of a database by the loopback port.
    pub fn address_of(&self, database: &str) -> PostgresAddress {
        self.url_of(database).parse().expect("the address is valid")
    }

    /// The same as text.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{ROLE}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// The address of a database by the unix socket.
    pub fn socket_url_of(&self, database: &str) -> String {
        let folder = self.socket_folder().display().to_string().replace('/', "%2F");
        format!("postgres://{ROLE}:{PASSWORD}@{folder}:{}/{database}", self.port)
    }

    /// The address of a database for the programs of PostgreSQL, as its superuser.
    pub fn superuser_url(&self, database: &str) -> String {
        let folder = self.socket_folder().display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{}/{database}", self.port)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the programs of PostgreSQL.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Stops the server at once, as a crash does.
    pub fn crash(&self) {
        self.end("immediate");
    }

    fn end(&self, mode: &str) {
        if let Some(mut child) = self.process.lock().expect("no test has panicked here").take() {
            if let Some((_, mut watcher)) = self.ties.lock().expect("no test has panicked here").take() {
                let _ = watcher.kill();
                let _ = watcher.wait();
            }
            self.stop(mode);
            let _ = child.wait();
        }
    }

    /// Ends the server in order and starts it again.
    pub fn restart(&self) {
        self.end("fast");
        self.run();
    }

    /// A standby of this server, which receives all changes under its name. The server waits for it with each commit, if
    /// [`PostgresServer::wait_for_standby`] says so.
    #[must_use]
    pub fn standby(&self, name: &str) -> Self {
        let standby = Self::prepared(self.programs.clone());
        let mut command = standby.command("pg_basebackup");
        command.arg("-D").arg(standby.data()).args(["-U", "postgres", "-c", "fast", "--no-sync", "-h"]);
        command.arg(self.socket_folder()).args(["-p", &self.port.to_string()]);
        let done = command.output().expect("pg_basebackup can be started");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        fs::write(standby.data().join("standby.signal"), "").expect("the folder is writable");
        let from = format!(
            "host={} port={} user=postgres application_name={name}",
            self.socket_folder().display(),
            self.port
        );
        // What the copy has of the settings of its origin is followed by its own.
        let again = "wal_retrieve_retry_interval = 300ms";
        standby.configure(&[&format!("primary_conninfo = '{from}'"), "hot_standby = on", again]);
        let _ = fs::remove_file(standby.data().join("postgresql.auto.conf"));
        standby.run();
        standby
    }

    /// Has each commit wait for the standby with this name, once that receives changes; nobody waits for an empty name.
    pub fn wait_for_standby(&self, name: &str) {
        let give_up = Instant::now() + Duration::from_secs(60);
        let sql = format!(
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        );
        while !name.is_empty() && self.sql("postgres", &sql) != "1" {
            assert!(Instant::now() < give_up, "the standby {name} does not receive changes");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.sql("postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        self.sql("postgres", "SELECT pg_reload_conf()");
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.sql("postgres", "SELECT pg_promote()");
    }

    /// Starts the server again.
    pub fn run(&self) {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let log = fs::File::create(self.folder.path().join("log")).expect("the folder is writable");
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        let child = command.spawn().expect("postgres can be started");
        self.end_with_tests(child.id());
        *self.process.lock().expect("no test has panicked here") = Some(child);
        self.wait_ready();
    }

    /// Has a small process stop the server and remove its folder when the tests have ended, however they end.
    fn end_with_tests(&self, server: u32) {
        let script = "read -r _; kill -QUIT $1 2> /dev/null; while kill -0 $1 2> /dev/null; do sleep 0.1; done; \
                      [ -z \"$2\" ] || rm -rf \"$2\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", &server.to_string()]).arg(self.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut watcher = command.spawn().expect("sh can be started");
        // The pipe closes with this process, or with the server's stop.
        let tie = watcher.stdin.take();
        self.ties.lock().expect("no test has panicked here").replace((tie, watcher));
    }

    /// Runs SQL as the superuser, and returns what it prints.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let mut command = self.command("psql");
        command.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]);
        command.arg(self.socket_folder()).args(["-p", &self.port.to_string(), "-d", database, "-c", sql]);
        let done = command.output().expect("psql can be started");
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// A server with a folder and a port, and without data.
    fn prepared(programs: PathBuf) -> Self {
        let folder =
            tempfile::Builder::new().prefix("rethread-pg").tempdir().expect("there is room for a folder");
        let server = Self {
            programs,
            folder,
            port: free_port(),
            process: Mutex::default(),
            ties: Mutex::default(),
            databases: AtomicUsize::new(0),
        };
        let give_away = |path: &Path| {
            if is_root() {
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))
                    .expect("root may give folders away");
            }
        };
        let folder = server.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        give_away(folder);
        fs::create_dir(server.socket_folder()).expect("the folder is new");
        give_away(&server.socket_folder());
        server
    }

    fn init(&self) {
        let mut command = self.command("initdb");
        command.args([
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
        ]);
        command.args(["--no-sync", "--no-instructions", "-D"]).arg(self.data());
        let done = command.output().expect("initdb can be started");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn configure(&self, settings: &[&str]) {
        let file = self.data().join("postgresql.conf");
        let mut file = fs::File::options().append(true).open(file).expect("initdb has made it");
        let (folder, port) = (self.socket_folder(), self.port);
        // What is tested ends processes, not the power: no test needs a sync.
        let own = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nfsync = off\n\
             max_connections = 300\nshared_buffers = 64MB\nautovacuum = off\n",
            folder.display()
        );
        file.write_all(own.as_bytes()).expect("the folder is writable");
        for setting in settings {
            writeln!(file, "{setting}").expect("the folder is writable");
        }
    }

    fn wait_ready(&self) {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let mut command = self.command("pg_isready");
            command.arg("-h").arg(self.socket_folder()).args(["-p", &self.port.to_string(), "-q"]);
            if command.status().is_ok_and(|status| status.success()) {
                return;
            }
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < give_up, "the server did not start: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn stop(&self, mode: &str) {
        let mut command = self.command("pg_ctl");
        command.args(["stop", "-m", mode, "-w", "-D"]).arg(self.data()).stdout(Stdio::null());
        let _ = command.status();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path()).env("LC_ALL", "C").env_remove("PGPASSWORD");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn socket_folder(&self) -> PathBuf {
        self.folder.path().join("s")
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.crash();
        if let Some((tie, mut watcher)) = self.ties.get_mut().ok().and_then(Option::take) {
            drop(tie);
            let _ = watcher.wait();
        }
    }
}

fn skipped() {
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: PostgreSQL is not used ({ON_POSTGRES} is not set; see .ci/postgres)"
    );
}

/// The folder of the programs, if tests are to use PostgreSQL.
fn programs() -> Option<PathBuf> {
    let given = std::env::var(ON_POSTGRES).ok().filter(|given| !given.is_empty())?;
    let is_there = |folder: &PathBuf| folder.join("initdb").exists();
    if given != "1" {
        let folder = PathBuf::from(given);
        assert!(is_there(&folder), "{ON_POSTGRES}: {} has no initdb", folder.display());
        return Some(folder);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin")).filter(is_there).collect();
    folders.sort();
    Some(folders.pop().unwrap_or_else(|| panic!("{ON_POSTGRES} is set, but PostgreSQL is not installed")))
}

fn is_root() -> bool {
    // SAFETY: a call without arguments that cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    listener.local_addr().expect("it is bound").port()
}
