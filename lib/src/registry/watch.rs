//! Watches the store, one task for a server: ends sessions that another process has archived or deleted while they are live
//! here, passes on requests of other processes to release one, and reports changes of rows to those who subscribed to the
//! list; and looks how far observed sessions are that other processes have open. It alone owns the subscriptions.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rethread_core::SessionId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::list_changes::{ListSubscriber, ListSubscribers};
use super::observe::{ObservedSessions, OpenElsewhere};
use super::{LiveSessions, Registry};
use crate::client_id::ClientId;
use crate::live_session::{ChangedSessions, Message};
use crate::lock::locked;
use crate::store::{Changes, Revision, Store};

/// How often the store is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often sessions that observers follow and another process has open are looked at.
const ELSEWHERE: Duration = Duration::from_millis(400);
/// How long changes of live sessions are collected before they are reported.
const COALESCED: Duration = Duration::from_millis(150);
/// How many requests may wait.
const REQUESTS: usize = 64;

/// What connections want of the watching task.
pub(super) enum WatchRequest {
    /// Changes of the list from now on.
    Subscribe(Box<ListSubscriber>, oneshot::Sender<()>),
    /// No more changes for this subscription. Answered with whether there was one.
    Unsubscribe(ClientId, String, oneshot::Sender<bool>),
    /// A client is gone.
    Leave(ClientId),
}

impl Registry {
    /// Begins to watch, unless that has been done. Called when the first session becomes live or somebody subscribes; ends
    /// with the registry.
    pub(super) fn watch(&self) -> &mpsc::Sender<WatchRequest> {
        self.watching.get_or_init(|| {
            let (sender, requests) = mpsc::channel(REQUESTS);
            let watcher = Watcher {
                live: self.live.clone(),
                store: self.deps.store.clone(),
                changed: self.deps.changed.clone(),
                since: None,
                subscribers: ListSubscribers::default(),
                observed: self.observed.clone(),
                elsewhere: HashSet::new(),
            };
            tokio::spawn(watcher.run(requests));
            sender
        })
    }

    /// Reports changes of the list to a client from now on. What changes after this has returned is reported.
    pub(crate) async fn subscribe_list(&self, subscriber: ListSubscriber) {
        let (done, subscribed) = oneshot::channel();
        // The task ends after the registry.
        let _ = self.watch().send(WatchRequest::Subscribe(Box::new(subscriber), done)).await;
        let _ = subscribed.await;
    }

    /// Ends a subscription. Says whether the client had it.
    pub(crate) async fn unsubscribe_list(&self, client: ClientId, id: String) -> bool {
        let (done, ended) = oneshot::channel();
        let _ = self.watch().send(WatchRequest::Unsubscribe(client, id, done)).await;
        ended.await.unwrap_or(false)
    }

    /// Ends the subscriptions of a client that is gone.
    pub(crate) async fn leave_list(&self, client: ClientId) {
        if let Some(watcher) = self.watching.get() {
            let _ = watcher.send(WatchRequest::Leave(client)).await;
        }
    }
}

/// The task that watches the store.
struct Watcher {
    live: Arc<LiveSessions>,
    store: Arc<dyn Store>,
    changed: Arc<ChangedSessions>,
    since: Option<Revision>,
    subscribers: ListSubscribers,
    observed: ObservedSessions,
    /// The observed sessions that other processes have open, or that were never looked at.
    elsewhere: HashSet<SessionId>,
}

impl Watcher {
    async fn run(mut self, mut requests: mpsc::Receiver<WatchRequest>) {
        let changed = self.changed.clone();
        let (mut next, mut next_elsewhere) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.handle(request).await,
                    None => return,
                },
                () = tokio::time::sleep_until(next) => {
                    self.look().await;
                    next = Instant::now() + INTERVAL;
                }
                () = tokio::time::sleep_until(next_elsewhere), if !self.elsewhere.is_empty() => {
                    self.look_elsewhere().await;
                    next_elsewhere = Instant::now() + ELSEWHERE;
                }
                () = changed.noted() => {
                    next = next.min(Instant::now() + COALESCED);
                    self.elsewhere.extend(self.observed.not_live(&self.live));
                }
            }
        }
    }

    async fn handle(&mut self, request: WatchRequest) {
        match request {
            WatchRequest::Subscribe(subscriber, done) => {
                // What has changed before is not reported to the new one.
                self.changed.begin();
                self.look_now().await;
                self.subscribers.add(*subscriber);
                let _ = done.send(());
            }
            WatchRequest::Unsubscribe(client, id, done) => {
                let _ = done.send(self.subscribers.remove(client, &id));
            }
            WatchRequest::Leave(client) => self.subscribers.leave(client),
        }
        if self.subscribers.is_empty() {
            self.changed.stop();
        }
    }

    /// While no session is live and nobody has subscribed, nothing can be missed.
    async fn look(&mut self) {
        let wanted = self.since.is_none()
            || !locked(&self.live).is_empty()
            || !self.subscribers.is_empty()
            || !self.observed.not_live(&self.live).is_empty();
        if wanted {
            self.look_now().await;
        }
    }

    async fn look_now(&mut self) {
        // A store that fails is asked again.
        if let Ok(changes) = self.store.changes(self.since).await {
            self.pass_on(&changes).await;
            self.since = Some(changes.revision);
            let observed: HashSet<_> = self.observed.not_live(&self.live).into_iter().collect();
            let ids: Vec<_> = changes.sessions.into_iter().map(|changed| changed.id).collect();
            self.elsewhere.extend(ids.iter().filter(|id| observed.contains(*id)).cloned());
            self.subscribers.changed(ids);
        }
        self.subscribers.changed(self.changed.take());
        self.subscribers.report(&self.live, self.store.as_ref()).await;
    }

    /// Looks how far the sessions are that other processes have open.
    async fn look_elsewhere(&mut self) {
        let not_live: HashSet<_> = self.observed.not_live(&self.live).into_iter().collect();
        for session in std::mem::take(&mut self.elsewhere) {
            if not_live.contains(&session)
                && self.observed.look(self.store.as_ref(), &session).await == OpenElsewhere::Yes
            {
                self.elsewhere.insert(session);
            }
        }
    }

    async fn pass_on(&self, changes: &Changes) {
        for changed in &changes.sessions {
            let handle = locked(&self.live).get(&changed.id).cloned();
            if let Some(handle) = handle {
                // One that has ended meanwhile is not lost.
                let _ = handle.send(Message::EpochSeen(changed.epoch)).await;
                if changed.release_asked_at.is_some() {
                    let _ = handle.send(Message::ReleaseAsked).await;
                }
            }
        }
    }
}
