//! The processes: a database with a synchronous standby, and hosts that reach it through a proxy each. Where the user may have
//! that, a host sees process ids of its own, as one on another machine does: nobody knows that it is gone before its lease is over.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rethread::lock::locked;
use rethread_testkit::postgres_server::PostgresServer;
use rethread_testkit::processes::{descendants_of, signal};
use rethread_testkit::program::example;
use rethread_testkit::tcp_proxy::TcpProxy;
use tempfile::TempDir;
use tokio::process::{Child, Command};

pub(crate) const HOSTS: usize = 3;

/// Has the hosts carry clients to each other, if it is set.
const CARRYING: &str = "RETHREAD_HOST_CARRYING";

/// How long a host may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Notes each change of a lease, with the host that made it: `application_name` names it.
const WITNESS: &str = "CREATE TABLE public.witness (
        number bigserial PRIMARY KEY, session bigint, epoch bigint, head bigint, old_epoch bigint, old_head bigint, writer text);
    GRANT INSERT, SELECT ON public.witness TO PUBLIC;
    GRANT USAGE ON SEQUENCE public.witness_number_seq TO PUBLIC;
    CREATE FUNCTION public.witness() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.witness (session, epoch, head, old_epoch, old_head, writer)
        VALUES (NEW.session, NEW.epoch, NEW.head, OLD.epoch, OLD.head, current_setting('application_name'));
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness AFTER UPDATE ON rethread.lease FOR EACH ROW EXECUTE FUNCTION public.witness();";

/// All of it.
pub(crate) struct Cluster {
    folder: TempDir,
    database: Mutex<Databases>,
    name: String,
    pub(crate) hosts: Vec<Host>,
    pub(crate) token: String,
}

/// The database, and the standby that each commit waits for.
struct Databases {
    primary: Arc<PostgresServer>,
    standby: Arc<PostgresServer>,
    failovers: usize,
}

/// A host.
pub(crate) struct Host {
    pub(crate) proxy: TcpProxy,
    port: u16,
    process: Mutex<Option<HostProcess>>,
}

struct HostProcess {
    child: Child,
    /// The process of the server itself.
    pid: i32,
}

impl Cluster {
    /// Starts everything. Nothing if the tests are not to use PostgreSQL.
    pub(crate) async fn start() -> Option<Self> {
        let primary = PostgresServer::own(&[])?;
        let standby = primary.standby("standby0");
        primary.wait_for_standby("standby0");
        let name = primary.new_database();
        primary.sql(&name, WITNESS);
        let hosts = (0..HOSTS).map(|_| Host::new(primary.port())).collect();
        let folder = tempfile::tempdir().expect("a folder can be made");
        let database = Databases { primary: Arc::new(primary), standby: Arc::new(standby), failovers: 0 };
        let mut cluster = Self { folder, database: Mutex::new(database), name, hosts, token: String::new() };
        fs::create_dir(cluster.cwd()).expect("the folder is new");
        cluster.token = cluster.new_token().await;
        for host in 0..HOSTS {
            cluster.configure(host);
            cluster.run(host).await;
        }
        Some(cluster)
    }

    /// The working directory of all sessions.
    pub(crate) fn cwd(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where the agents of a host write what they are prompted.
    pub(crate) fn prompt_log(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("prompts{host}"))
    }

    /// The address of a host's server.
    pub(crate) fn url(&self, host: usize) -> String {
        format!("http://127.0.0.1:{}", self.hosts[host].port)
    }

    /// The address of the database, not through a proxy.
    pub(crate) fn database_url(&self) -> String {
        locked(&self.database).primary.url_of(&self.name)
    }

    /// Runs SQL on the primary.
    pub(crate) fn sql(&self, sql: &str) -> String {
        let primary = locked(&self.database).primary.clone();
        primary.sql(&self.name, sql)
    }

    /// Restarts the primary, in order or after a crash. Blocks.
    pub(crate) fn restart_database(&self, crash: bool) {
        let primary = locked(&self.database).primary.clone();
        if crash {
            primary.crash();
            primary.run();
        } else {
            primary.restart();
        }
    }

    /// Crashes the primary, and goes on with the standby. A new standby is made. Blocks.
    pub(crate) fn fail_over(&self) {
        let mut database = locked(&self.database);
        database.primary.crash();
        database.standby.promote();
        database.primary = database.standby.clone();
        for host in &self.hosts {
            host.proxy.turn_to(database.primary.port());
            host.proxy.cut();
        }
        database.failovers += 1;
        let name = format!("standby{}", database.failovers);
        database.standby = Arc::new(database.primary.standby(&name));
        database.primary.wait_for_standby(&name);
    }

    /// Starts a host, and waits until it listens.
    pub(crate) async fn run(&self, host: usize) {
        let mut words = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        // The guardians of agents have some time after the server has ended.
        let script = "\"$@\" & wait; sleep 5";
        words.extend(["sh", "-c", script, "sh"]);
        if !has_own_processes().await {
            words.clear();
        }
        let listen = format!("127.0.0.1:{}", self.hosts[host].port);
        words.extend([env!("CARGO_BIN_EXE_rethread"), "serve", "--listen", &listen]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("RETHREAD_HOME", self.home(host));
        command.env("RETHREAD_STORE", self.store(host)).env_remove("RETHREAD_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        end_with_test(&mut command);
        let child = command.spawn().expect("the server starts");
        let outer = i32::try_from(child.id().expect("it runs")).expect("a process id is small");
        let give_up = Instant::now() + START_LIMIT;
        let pid = loop {
            if let Some(pid) = server_below(outer) {
                break pid;
            }
            assert!(Instant::now() < give_up, "host {host} does not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        *locked(&self.hosts[host].process) = Some(HostProcess { child, pid });
        while tokio::net::TcpStream::connect(&listen).await.is_err() {
            assert!(Instant::now() < give_up, "host {host} does not listen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills a host with SIGKILL.
    pub(crate) async fn kill(&self, host: usize) {
        let process = locked(&self.hosts[host].process).take();
        if let Some(mut process) = process {
            signal(process.pid, libc::SIGKILL);
            // What is left of it ends by itself.
            tokio::spawn(async move { process.child.wait().await });
        }
        // The port is free when the process is gone.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Sends a signal to a host.
    pub(crate) fn signal(&self, host: usize, number: i32) {
        if let Some(process) = &*locked(&self.hosts[host].process) {
            signal(process.pid, number);
        }
    }

    fn home(&self, host: usize) -> PathBuf {
        self.folder.path().join(format!("host{host}"))
    }

    fn store(&self, host: usize) -> String {
        let direct = self.database_url();
        let (before, after) = direct.rsplit_once(':').expect("it has a port");
        let (_, database) = after.split_once('/').expect("it has a database");
        let port = self.hosts[host].proxy.port();
        format!("{before}:{port}/{database}?application_name=host{host}")
    }

    fn configure(&self, host: usize) {
        let agent = example("scripted_agent").display().to_string();
        let log = self.prompt_log(host).display().to_string();
        let root = self.cwd().canonicalize().expect("it exists").display().to_string();
        let carrying = match std::env::var_os(CARRYING) {
            Some(_) => format!("cluster_key = \"{}\"\n", "0123456789abcdef".repeat(4)),
            None => String::new(),
        };
        let text = format!(
            "{carrying}default_agent = \"scripted\"\n[agents.scripted]\n\
             command = [{agent:?}, \"--protocol\", \"both\", \"--own-ids\", \"--prompt-log\", {log:?}]\n\
             [serve]\nroots = [{root:?}]\n"
        );
        fs::create_dir_all(self.home(host)).expect("a folder can be made");
        fs::write(self.home(host).join("config.toml"), text).expect("it can be written");
    }

    /// A token that all hosts accept.
    async fn new_token(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rethread"));
        command.args(["token", "new", "test"]).env("RETHREAD_HOME", self.home(0));
        let made = command.env("RETHREAD_STORE", self.store(0)).output().await.expect("it starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8_lossy(&made.stdout).trim_end().to_owned()
    }
}

impl Host {
    fn new(database: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        Self { proxy: TcpProxy::to(database), port, process: Mutex::default() }
    }
}

/// Whether a process may be started that has process ids of its own.
pub(crate) async fn has_own_processes() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// Has the system end a process when the test is killed.
fn end_with_test(command: &mut Command) {
    let tie = || {
        // SAFETY: a plain call, allowed between fork and exec.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: only an async-signal-safe call is made between fork and exec.
    unsafe { command.pre_exec(tie) };
}

/// The process of the server, which is this one or below it.
fn server_below(outer: i32) -> Option<i32> {
    let serves = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|word| word.ends_with(b"/rethread")) && words.next() == Some(b"serve")
    };
    std::iter::once(outer).chain(descendants_of(outer)).find(serves)
}
