//! The attached clients of a live session: who they are, which questions each can answer, and who has declined which
//! question. Their open requests are in `requests`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rethread_core::{Json, QuestionId, QuestionKind};

use crate::client_id::{ClientId, ClientTag};
use crate::edge::capabilities::ClientProfile;
use crate::edge::client_request::Setup;
use crate::outbox::{Outbound, Outbox};

/// A client that follows.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) tag: ClientTag,
    pub(crate) profile: Arc<ClientProfile>,
    pub(crate) outbox: Outbox,
}

impl Client {
    /// Says whether the client can answer such a question.
    fn can_answer(&self, kind: QuestionKind, body: &Json) -> bool {
        match kind {
            QuestionKind::Permission => true,
            QuestionKind::Elicitation => self.profile.supports_elicitation(body),
        }
    }
}

/// The clients of a session.
#[derive(Default)]
pub(super) struct Clients {
    /// The newest last.
    attached: Vec<Client>,
    /// Who has declined to answer an open question.
    declined: HashMap<QuestionId, HashSet<ClientId>>,
    /// Servers and roots that a client asked for while they could not be applied.
    wanted: Option<(ClientId, Setup)>,
}

/// What becomes of a question after a client declined it or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Somebody can still answer, or nobody is there to be asked.
    Waits,
    /// Everybody who could answer has declined.
    Declined,
}

impl Clients {
    /// A client follows from now on, as the newest.
    pub(super) fn attach(&mut self, client: Client) {
        self.attached.retain(|known| !known.outbox.is_closed() && known.tag.id != client.tag.id);
        self.attached.push(client);
    }

    /// A client follows no longer.
    pub(super) fn detach(&mut self, client: ClientId) {
        self.attached.retain(|known| known.tag.id != client);
        if self.wanted.as_ref().is_some_and(|(by, _)| *by == client) {
            self.wanted = None;
        }
    }

    /// Nobody follows any longer.
    pub(super) fn clear(&mut self) {
        self.attached.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.attached.len()
    }

    /// Says whether nobody else follows.
    pub(super) fn is_alone(&self, client: ClientId) -> bool {
        self.attached.iter().all(|known| known.tag.id == client)
    }

    pub(super) fn get(&self, client: ClientId) -> Option<&Client> {
        self.attached.iter().find(|known| known.tag.id == client)
    }

    /// The newest client for which something holds.
    pub(super) fn newest(&self, holds: impl Fn(&Client) -> bool) -> Option<&Client> {
        self.attached.iter().rev().find(|client| holds(client))
    }

    /// Everybody but this one.
    pub(super) fn others(&self, client: Option<ClientId>) -> impl Iterator<Item = &Client> {
        self.attached.iter().filter(move |known| Some(known.tag.id) != client)
    }

    /// Hands something to everybody but this one. Gives how many did not take it.
    pub(super) fn offer_others(&self, client: Option<ClientId>, message: impl Fn() -> Outbound) -> usize {
        self.others(client).filter(|known| known.outbox.offer(message()).is_err()).count()
    }

    /// A client has declined to answer.
    pub(super) fn decline(&mut self, client: ClientId, question: &QuestionId) {
        self.declined.entry(question.clone()).or_default().insert(client);
    }

    /// What becomes of a question.
    pub(super) fn verdict(&self, question: &QuestionId, kind: QuestionKind, body: &Json) -> Verdict {
        let Some(declined) = self.declined.get(question) else { return Verdict::Waits };
        let mut able = self.attached.iter().filter(|client| client.can_answer(kind, body)).peekable();
        if able.peek().is_none() {
            return Verdict::Waits;
        }
        match able.all(|client| declined.contains(&client.tag.id)) {
            true => Verdict::Declined,
            false => Verdict::Waits,
        }
    }

    /// A question is no longer open.
    pub(super) fn question_closed(&mut self, question: &QuestionId) {
        self.declined.remove(question);
    }

    /// A client asked for servers and roots that cannot be applied now. The newest wish counts.
    pub(super) fn want(&mut self, client: ClientId, setup: Setup) {
        self.wanted = Some((client, setup));
    }

    /// The servers and roots that can be applied now, since only the client that asked for them follows.
    pub(super) fn take_wanted(&mut self) -> Option<Setup> {
        let (client, _) = self.wanted.as_ref()?;
        if !self.is_alone(*client) {
            return None;
        }
        self.wanted.take().map(|(_, setup)| setup)
    }

    /// Whatever was asked for before, this is what holds now.
    pub(super) fn forget_wanted(&mut self) {
        self.wanted = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::edge::params::Params;
    use crate::outbox::{Outgoing, queue};

    struct TestClient {
        id: ClientId,
        _outgoing: Outgoing,
    }

    fn attach(clients: &mut Clients, capabilities: Value) -> TestClient {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities}).to_string();
        let raw = serde_json::from_str::<&serde_json::value::RawValue>(&params).expect("JSON");
        let profile = ClientProfile::read(&Params::read(Some(raw)).expect("an object")).expect("a client");
        let (outbox, outgoing) = queue(Arc::default());
        let tag = ClientTag { id: ClientId::next(), name: None };
        clients.attach(Client { tag: tag.clone(), profile: Arc::new(profile), outbox });
        TestClient { id: tag.id, _outgoing: outgoing }
    }

    #[test]
    fn a_question_is_declined_when_everybody_who_could_answer_has_declined() {
        let mut clients = Clients::default();
        let one = attach(&mut clients, json!({"elicitation": {"form": {}}}));
        let two = attach(&mut clients, json!({}));
        let (question, body) = (QuestionId("q".to_owned()), json!({"mode": "form"}).into());
        let permission = |clients: &Clients| clients.verdict(&question, QuestionKind::Permission, &body);
        let form = |clients: &Clients| clients.verdict(&question, QuestionKind::Elicitation, &body);
        assert_eq!(permission(&clients), Verdict::Waits);
        clients.decline(one.id, &question);
        assert_eq!(permission(&clients), Verdict::Waits, "the other one may answer");
        assert_eq!(form(&clients), Verdict::Declined, "the other one cannot fill in forms");
        clients.detach(two.id);
        assert_eq!(permission(&clients), Verdict::Declined, "the one that is left has declined");
        clients.detach(one.id);
        assert_eq!(permission(&clients), Verdict::Waits, "nobody is there: the next client is asked");
    }

    #[test]
    fn another_setup_is_applied_when_only_the_client_that_asked_for_it_is_left() {
        let mut clients = Clients::default();
        let (one, two) = (attach(&mut clients, json!({})), attach(&mut clients, json!({})));
        clients.want(two.id, Setup::default());
        assert!(clients.take_wanted().is_none(), "two are there");
        clients.detach(one.id);
        assert!(clients.take_wanted().is_some());
        assert!(clients.take_wanted().is_none(), "once");
        clients.want(two.id, Setup::default());
        clients.detach(two.id);
        assert!(clients.take_wanted().is_none(), "it left");
    }
}
