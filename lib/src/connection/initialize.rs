//! Handles `initialize`: agrees on a protocol version and answers with the agent's capabilities. The stored answer of the
//! agent's last start is used at once while the agent starts; only the first start is waited for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rethread_core::Json;
use serde_json::value::RawValue;

use super::directory::ClientRecord;
use super::observe::{NoAgent, unknown_agent};
use super::{
    AgentStart, ClientAccess, ClientContext, ClientRole, Connection, ConnectionDeps, NativeSessions, Phase,
    ReachedBy, Ready, ReadyClient,
};
use crate::agent::host::{AgentHost, AgentSource, LiveAgent};
use crate::agent::pool::{HostUser, SharedHost};
use crate::client_id::ClientTag;
use crate::clock;
use crate::edge::capabilities::{AgentProfile, ClientProfile};
use crate::edge::params::Params;
use crate::outbox::OpenRequest;
use crate::store::Store;
use crate::wire::{RpcError, code};

/// How long an agent that is not known as it is now may take to introduce itself, if something is known of it.
const MEETING_LIMIT: Duration = Duration::from_secs(10);
/// How long the start of a known agent waits for the first requests of the client. A request that needs the agent starts
/// it at once; one that is answered from the store does not have to share the processor with the start.
const START_DELAY: Duration = Duration::from_millis(50);

impl Connection {
    pub(super) fn initialize(&mut self, request: OpenRequest, params: Option<&RawValue>) {
        let used = matches!(&self.phase, Phase::Ready(ready) if ready.context.used);
        if used || matches!(self.phase, Phase::Initializing { .. }) {
            let error = RpcError::new(code::INVALID_REQUEST, "the connection is already initialized");
            return request.answer(Err(error.hint("open a new connection to initialize again")));
        }
        let read = Params::read(params)
            .and_then(|params| Ok((ClientProfile::read(&params)?, self.deps.access.lowered(&params)?)));
        let (client, access) = match read {
            Ok(read) => read,
            Err(error) => return request.answer(Err(error)),
        };
        let introduction =
            params.map_or_else(|| serde_json::json!({}).into(), |raw| Json::from(raw.to_owned()));
        let role = access.role();
        let user = self.host_user(&client, role);
        let host = user.shared().clone();
        let before = match std::mem::replace(&mut self.phase, Phase::Fresh) {
            Phase::Ready(ready_client) => Some(ready_client),
            Phase::Fresh | Phase::Initializing { .. } => None,
        };
        self.phase = Phase::Initializing { user, before };
        let (ready, deps) = (self.ready.clone(), self.deps.clone());
        tokio::spawn(async move {
            let memory = ProfileCache::new(&deps, &client);
            let known = match &deps.carried {
                Some(profile) => Some(profile.clone()),
                None => memory.recall().await,
            };
            let (outcome, agent_start) = match (role, known) {
                // It has no agent of its own here.
                (ClientRole::Full, Some(profile)) if deps.carried.is_some() => {
                    (Ok(profile), AgentStart::Never)
                }
                (ClientRole::Observer, Some(profile)) => (Ok(profile), AgentStart::Never),
                (ClientRole::Observer, None) => (Ok(memory.earlier().await), AgentStart::Never),
                (ClientRole::Full, Some(profile)) => {
                    host.recall(&profile);
                    (Ok(profile), AgentStart::Soon)
                }
                (ClientRole::Full, None) => (memory.meet(&host).await, AgentStart::Now),
            };
            let ready_client = Ready { request, client, introduction, access, outcome, agent_start };
            let _ = ready.send(Box::new(ready_client)).await;
        });
    }

    /// The agent host of the client. An observer, or a client that another host carries here, has one that starts nothing, and hears nothing of any agent.
    fn host_user(&self, client: &ClientProfile, role: ClientRole) -> HostUser {
        let (agents, config) = (&self.deps.agents, &self.deps.host_config);
        match role {
            ClientRole::Full if self.deps.carried.is_none() => {
                let user = agents.host(&self.deps.agent, client, config);
                user.clients().add(self.client, self.from_process.clone());
                user
            }
            ClientRole::Full | ClientRole::Observer => {
                let none: Arc<dyn AgentSource> = Arc::new(NoAgent);
                agents.host(&none, client, config)
            }
        }
    }

    pub(super) async fn initialized(&mut self, ready: Ready) {
        let (user, before) = match std::mem::replace(&mut self.phase, Phase::Fresh) {
            Phase::Initializing { user, before } => (user, before),
            other @ (Phase::Fresh | Phase::Ready(_)) => {
                self.phase = other;
                return;
            }
        };
        let Ready { request, client, introduction, access, outcome, agent_start } = ready;
        let unneeded = match outcome {
            Ok(profile) => {
                let answer = access.shown(profile.answer(&client));
                let host = user.shared().clone();
                let context = self.agree(client, introduction, access, host, profile);
                self.register(&context);
                self.meet_agent(&context, agent_start);
                self.phase = Phase::Ready(Box::new(ReadyClient { context, user }));
                request.answer(Ok(answer));
                before.map(|before| before.user)
            }
            Err(error) => {
                // What was agreed before stays in force.
                self.phase = before.map_or(Phase::Fresh, Phase::Ready);
                request.answer(Err(error));
                Some(user)
            }
        };
        if let Some(user) = unneeded {
            self.leave_host(user).await;
        }
    }

    /// Leaves a host, unless it is the one in use.
    async fn leave_host(&self, user: HostUser) {
        let in_use = matches!(&self.phase, Phase::Ready(ready) if ready.user.is_same(&user));
        if !in_use {
            user.clients().remove(self.client);
        }
        user.leave().await;
    }

    /// Tells the other clients who this one is.
    fn register(&self, context: &ClientContext) {
        self.deps.directory.add(ClientRecord {
            tag: context.tag.clone(),
            program: context.client.program_version(),
            protocol: context.client.version,
            role: context.access.role(),
            transport: self.deps.transport,
            since: clock::now(),
            attached: self.attached.clone(),
            observing: self.observing.clone(),
            outbox: self.outbox.clone(),
            knows_us: AtomicBool::new(false),
        });
    }

    fn agree(
        &self,
        client: ClientProfile,
        introduction: Json,
        access: ClientAccess,
        host: SharedHost,
        profile: Arc<AgentProfile>,
    ) -> ClientContext {
        let tag = ClientTag { id: self.client, name: client.name() };
        ClientContext {
            client: Arc::new(client),
            tag,
            host,
            profile: Arc::new(Mutex::new(profile)),
            registry: self.deps.registry.clone(),
            access: Arc::new(access),
            introduction: Arc::new(introduction),
            reached_by: if self.deps.carried.is_some() { ReachedBy::OtherHost } else { ReachedBy::Client },
            used: false,
        }
    }

    /// When the agent is up: what it says of itself now is remembered, and what it lists is learnt.
    fn meet_agent(&self, context: &ClientContext, agent_start: AgentStart) {
        let (context, deps) = (context.clone(), self.deps.clone());
        let mut corrected = context.host.corrected();
        tokio::spawn(async move {
            match agent_start {
                AgentStart::Now => {}
                AgentStart::Soon => tokio::time::sleep(START_DELAY).await,
                AgentStart::Never => return,
            }
            // The next request that needs the agent gets the error.
            let Ok(live) = context.host.live().await else { return };
            let memory = ProfileCache::new(&deps, &context.client);
            let profile = context.profile.clone();
            memory.learn(&profile, &live).await;
            if deps.native_sessions == NativeSessions::Listed {
                context.registry.learn_natives(&context.host, &live).await;
            }
            // The host goes when the connection does, and this with it.
            drop((context, live));
            let known = corrected.wait_for(Option::is_some).await.ok().and_then(|live| live.clone());
            if let Some(live) = known {
                memory.learn(&profile, &live).await;
            }
        });
    }
}

/// A command line may hold a secret, so what is stored does not tell it.
fn fingerprint(text: &str) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, text).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// What agents said of themselves when they were last started.
pub(super) struct ProfileCache {
    store: Arc<dyn Store>,
    /// The program as it is now, and how it is introduced to the client.
    key: Option<String>,
    /// The command alone.
    command: Option<String>,
}

impl ProfileCache {
    pub(super) fn new(deps: &ConnectionDeps, client: &ClientProfile) -> Self {
        let offers = client.initialize_params(client.version);
        let protocol = deps.host_config.protocol;
        let key = deps.agent.key().map(|key| fingerprint(&format!("{key} {protocol:?} {offers}")));
        let command = deps.agent.command_key().map(|command| fingerprint(&format!("command {command}")));
        Self { store: deps.store.clone(), key, command }
    }

    /// What the agent that is there now says of itself. If it cannot be started, or takes too long, what the same
    /// command said before is used: stored sessions can be listed and read without an agent, and requests that need
    /// the agent get its error.
    async fn meet(&self, host: &AgentHost) -> Result<Arc<AgentProfile>, RpcError> {
        let Some(earlier) = self.recall_key(self.command.clone()).await else {
            return host.live().await.map(|live| live.profile);
        };
        match tokio::time::timeout(MEETING_LIMIT, host.live()).await {
            Ok(Ok(live)) => Ok(live.profile),
            Ok(Err(_)) | Err(_) => Ok(earlier),
        }
    }

    /// What the same command said before, or nothing in particular.
    async fn earlier(&self) -> Arc<AgentProfile> {
        self.recall_key(self.command.clone()).await.unwrap_or_else(unknown_agent)
    }

    async fn recall(&self) -> Option<Arc<AgentProfile>> {
        self.recall_key(self.key.clone()).await
    }

    async fn recall_key(&self, key: Option<String>) -> Option<Arc<AgentProfile>> {
        let key = key?;
        let bytes = self.store.profile(&key).await.ok()??;
        let answer = Json::parse(String::from_utf8(bytes).ok()?).ok()?;
        AgentProfile::read(&answer).ok().map(Arc::new)
    }

    /// Takes what an agent is seen to be, for this connection and for the next ones.
    async fn learn(&self, known: &Mutex<Arc<AgentProfile>>, live: &LiveAgent) {
        *known.lock().unwrap_or_else(PoisonError::into_inner) = live.profile.clone();
        self.remember(live).await;
    }

    async fn remember(&self, live: &LiveAgent) {
        for key in [&self.key, &self.command].into_iter().flatten() {
            self.write(key.clone(), live.answer.text().as_bytes().to_vec()).await;
        }
    }

    /// What the agent said of itself is not true any more: the next client waits for it.
    pub(super) async fn forget(&self) {
        if let Some(key) = self.key.clone() {
            self.write(key, Vec::new()).await;
        }
    }

    async fn write(&self, key: String, profile: Vec<u8>) {
        // What is not remembered costs the next client some time, nothing else.
        let _ = self.store.remember_profile(&key, &profile, clock::now()).await;
    }
}
