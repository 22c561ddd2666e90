//! The built `rethread` binary as a real process with its own data folder, and a test client on its pipes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rethread::edge::Version;
use rethread::store::Store;
use rethread::store::embedded::{EmbeddedPaths, EmbeddedStore};
use rethread::store::postgres::PostgresStore;
use rethread::transport::Wire;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::watch;

use crate::DEADLINE;
use crate::client::Client;
use crate::postgres_server::{ON_POSTGRES, PostgresServer};
use crate::processes::signal;

/// A data folder for the program, deleted on drop.
pub struct Home {
    dir: TempDir,
    binary: PathBuf,
    /// The address of its store, if the tests use PostgreSQL.
    store: Option<String>,
}

/// A running program, killed on drop.
pub struct Program {
    /// A client on its pipes.
    pub client: Client,
    child: Child,
    ended: watch::Receiver<bool>,
}

/// The environment variables that set up model providers.
const PROVIDERS: [&str; 8] = [
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GOOGLE_GEMINI_BASE_URL",
    "OLLAMA_HOST",
];

impl Home {
    /// Makes a folder for this binary: `env!("CARGO_BIN_EXE_rethread")`.
    #[must_use]
    pub fn new(binary: &str) -> Self {
        let store = std::env::var_os(ON_POSTGRES).and_then(|_| PostgresServer::shared());
        Self {
            dir: tempfile::tempdir().expect("a folder can be made"),
            binary: binary.into(),
            store: store.map(PostgresServer::database_url),
        }
    }

    /// A folder for another host with the same store, if that is in PostgreSQL.
    #[must_use]
    pub fn other_host(&self) -> Self {
        let dir = tempfile::tempdir().expect("a folder can be made");
        Self { dir, binary: self.binary.clone(), store: self.store.clone() }
    }

    /// The value of `RETHREAD_HOME`. The program creates the folder.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// A folder for files that are not the program's.
    #[must_use]
    pub fn beside(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the store of the program, beside it.
    #[must_use]
    pub fn open_store(&self) -> Arc<dyn Store> {
        match &self.store {
            Some(url) => {
                let address = url.parse().expect("the address is valid");
                Arc::new(PostgresStore::open(&address).expect("the store opens"))
            }
            None => {
                let home = self.path();
                let paths =
                    EmbeddedPaths { database: home.join("rethread.db"), locks: home.join("state/locks") };
                Arc::new(EmbeddedStore::open(&paths).expect("the store opens"))
            }
        }
    }

    /// The program with these arguments, not started.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).env("RETHREAD_HOME", self.path()).kill_on_drop(true);
        match &self.store {
            Some(store) => command.env("RETHREAD_STORE", store),
            None => command.env_remove("RETHREAD_STORE"),
        };
        // No test may reach a real model of the user.
        for name in PROVIDERS {
            command.env_remove(name);
        }
        command
    }

    /// `acp` with an agent behind it, not started.
    #[must_use]
    pub fn acp(&self, agent: &[OsString]) -> Command {
        let mut command = self.command(&["acp", "--"]);
        command.args(agent);
        command
    }

    /// Starts `acp` with an agent, for a client of this version.
    #[must_use]
    pub fn start(&self, version: Version, agent: &[OsString]) -> Program {
        Program::start(self.acp(agent), version)
    }

    /// Starts `acp` with the scripted agent, and initializes.
    pub async fn ready(&self, client: Version, agent: Version) -> Program {
        let program = self.start(client, &self.scripted(agent));
        program.client.initialize().await;
        program
    }

    /// Starts `serve` with these arguments, on a unix socket alone, and waits until it listens.
    pub async fn serve(&self, args: &[&str]) -> ServerProgram {
        let mut command = self.command(&["serve", "--listen", "off"]);
        command.args(args);
        ServerProgram::start(command).await
    }

    /// The same with HTTP on any free port, for sessions in any directory.
    pub async fn serve_http(&self, args: &[&str]) -> ServerProgram {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(args);
        ServerProgram::start(command).await
    }

    /// The command of the scripted agent, an example of the same package as the binary.
    #[must_use]
    pub fn scripted(&self, version: Version) -> Vec<OsString> {
        vec![example("scripted_agent").into(), "--protocol".into(), version.number().to_string().into()]
    }
}

/// The path of an example that was built beside the running test.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let built = test.ancestors().nth(2).expect("a test is built in a folder").join("examples").join(name);
    assert!(built.exists(), "build the examples first: cargo build --workspace --examples");
    built
}

impl Program {
    /// Starts a command with a client on its pipes.
    #[must_use]
    pub fn start(mut command: Command, version: Version) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (tell, ended) = watch::channel(false);
        let reader = ProgramOutput { reader: child.stdout.take().expect("it was piped"), ended: tell };
        let wire = Wire::new(reader, child.stdin.take().expect("it was piped"));
        Self { client: Client::over(wire, version, None), child, ended }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        let id = self.child.id().expect("it was not waited for");
        i32::try_from(id).expect("a process id is small")
    }

    /// Kills it with SIGKILL, and waits until the client has received all of its output.
    pub async fn kill(&mut self) {
        signal(self.pid(), libc::SIGKILL);
        self.exited().await;
    }

    /// Waits until it has exited and the client has received all of its output.
    pub async fn exited(&mut self) -> ExitStatus {
        let ended = async {
            let status = self.child.wait().await.expect("it can be waited for");
            let _ = self.ended.wait_for(|ended| *ended).await;
            status
        };
        tokio::time::timeout(2 * DEADLINE, ended).await.expect("the program ends")
    }

    /// What it wrote to stderr, if that was piped. Waits for its exit.
    pub async fn stderr(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let reading = stderr.read_to_string(&mut text);
            let read = tokio::time::timeout(2 * DEADLINE, reading).await.expect("the program ends");
            read.expect("what the program writes is text");
        }
        text
    }
}

/// A running server, killed on drop.
pub struct ServerProgram {
    /// What it listens on, as it printed it.
    pub addresses: Vec<String>,
    child: Child,
}

impl ServerProgram {
    /// Starts a command, and waits until it has printed its addresses.
    pub async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the server starts");
        let mut output = child.stdout.take().expect("it was piped");
        let mut text = Vec::new();
        let reading = async {
            // All addresses are printed at once.
            while !text.ends_with(b"\n") && output.read_buf(&mut text).await.is_ok_and(|count| count > 0) {}
        };
        tokio::time::timeout(2 * DEADLINE, reading).await.expect("the server says where it listens");
        let text = String::from_utf8(text).expect("it prints text");
        let addresses = text.lines().filter_map(|line| line.strip_prefix("listening on "));
        let addresses: Vec<_> = addresses.map(str::to_owned).collect();
        if addresses.is_empty() {
            let (code, said) = Self { addresses, child }.exited().await;
            panic!("the server did not start: {code:?} {said}");
        }
        Self { addresses, child }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        let id = self.child.id().expect("it was not waited for");
        i32::try_from(id).expect("a process id is small")
    }

    /// The path of its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        let path = self.addresses.iter().find_map(|address| address.strip_prefix("unix:"));
        path.expect("it listens on a socket").into()
    }

    /// Waits until it has exited. Gives its exit code and what it wrote to stderr.
    pub async fn exited(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().expect("it was piped");
        let ended = async {
            stderr.read_to_string(&mut said).await.expect("it writes text");
            self.child.wait().await.expect("it can be waited for")
        };
        let status = tokio::time::timeout(2 * DEADLINE, ended).await.expect("the server ends");
        (status.code(), said)
    }
}

/// The program's output. Its end is reported after everything before it was read.
struct ProgramOutput {
    reader: ChildStdout,
    ended: watch::Sender<bool>,
}

impl AsyncRead for ProgramOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.reader).poll_read(cx, buf));
        if read.is_err() || buf.filled().len() == before {
            let _ = self.ended.send(true);
        }
        Poll::Ready(read)
    }
}
