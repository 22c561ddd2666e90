//! The open requests of all clients of a session: prompts, changes of options, closes; and who sent which prompt. Knows when
//! an answer is due, not what it is.

use std::collections::HashMap;

use rethread_core::{AskId, Json, MessageId, TurnNo};

use super::client_requests::OptionAnswer;
use crate::client_id::{ClientId, ClientTag};
use crate::outbox::Reply;
use crate::wire::Id;

/// The open requests of all clients.
#[derive(Default)]
pub(super) struct Requests {
    prompts: HashMap<MessageId, Reply>,
    /// The `_meta` of prompts that have not been sent: it goes to the agent and is not kept.
    metas: HashMap<MessageId, Json>,
    /// Who sent the prompts that are not over, also those whose client has left.
    senders: HashMap<MessageId, ClientTag>,
    options: HashMap<AskId, (Reply, OptionAnswer)>,
    closing: Vec<Reply>,
    /// The prompts of the turn that ends next, in their order.
    running: Vec<MessageId>,
    /// The last turn whose end was answered.
    ended_turn: TurnNo,
}

/// The answer that an inserted prompt is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// That it was accepted.
    Accepted,
    /// How its turn ended, which is already over.
    TurnEnd,
}

impl Requests {
    /// The requests of a session whose turns up to this one are over.
    pub(super) fn after_turn(ended_turn: TurnNo) -> Self {
        Self { ended_turn, ..Self::default() }
    }

    /// A client waits for a prompt.
    pub(super) fn add_prompt(
        &mut self,
        message: &MessageId,
        sender: Option<ClientTag>,
        meta: Option<Json>,
        reply: Reply,
    ) {
        self.prompts.insert(message.clone(), reply);
        self.metas.extend(meta.map(|meta| (message.clone(), meta)));
        self.senders.extend(sender.map(|sender| (message.clone(), sender)));
    }

    /// The `_meta` that goes to the agent with this prompt.
    pub(super) fn take_meta(&mut self, message: &MessageId) -> Option<Json> {
        self.metas.remove(message)
    }

    /// Removes a prompt that did not become part of the conversation. Returns its open request.
    pub(super) fn prompt_dropped(&mut self, message: &MessageId) -> Option<Reply> {
        self.metas.remove(message);
        self.senders.remove(message);
        self.prompts.remove(message)
    }

    /// Records that a prompt is part of a turn. Returns its open request if the answer is due.
    pub(super) fn prompt_inserted(&mut self, message: &MessageId, turn: TurnNo) -> Option<(Reply, Due)> {
        // The state may be far ahead: whole turns may have come in one batch.
        let over = turn <= self.ended_turn;
        if over {
            self.senders.remove(message);
        } else {
            self.running.push(message.clone());
        }
        let waits_for_end = self.prompts.get(message)?.waits_for_end();
        match (waits_for_end, over) {
            (true, false) => None,
            (true, true) => self.prompts.remove(message).map(|reply| (reply, Due::TurnEnd)),
            (false, _) => self.prompts.remove(message).map(|reply| (reply, Due::Accepted)),
        }
    }

    /// Records the end of a turn. Returns the requests that wait for it.
    pub(super) fn turn_ended(&mut self, turn: TurnNo) -> Vec<Reply> {
        self.ended_turn = turn;
        let running = std::mem::take(&mut self.running);
        running.iter().for_each(|message| drop(self.senders.remove(message)));
        running.iter().filter_map(|message| self.prompts.remove(message)).collect()
    }

    /// The client whose prompt the turn works on: the sender of its last prompt.
    pub(super) fn prompter(&self) -> Option<ClientId> {
        self.running.iter().rev().find_map(|message| self.senders.get(message)).map(|sender| sender.id)
    }

    /// Who sent the prompts that are not over.
    pub(super) fn senders(&self) -> impl Iterator<Item = (&MessageId, &ClientTag)> {
        self.senders.iter()
    }

    /// Says whether the turn that runs works on a prompt of this client, and the client still waits for its end.
    pub(super) fn waits_for_turn(&self, client: ClientId) -> bool {
        let is = |message: &MessageId| self.prompts.get(message).is_some_and(|reply| reply.client == client);
        self.running.iter().any(is)
    }

    /// The prompt that a client sent with this request.
    pub(super) fn prompt_of(&self, client: ClientId, id: &Id) -> Option<MessageId> {
        let is = |reply: &Reply| reply.client == client && reply.id() == id;
        self.prompts.iter().find(|(_, reply)| is(reply)).map(|(message, _)| message.clone())
    }

    /// The prompts that a client waits for.
    pub(super) fn prompts_of(&self, client: ClientId) -> Vec<MessageId> {
        let is = |reply: &Reply| reply.client == client;
        self.prompts.iter().filter(|(_, reply)| is(reply)).map(|(message, _)| message.clone()).collect()
    }

    /// A notice goes with the answer of those who do not take it otherwise.
    pub(super) fn note(&mut self, notice: &Json) {
        self.prompts.values_mut().for_each(|reply| reply.note(notice));
    }

    /// A client waits for a change of an option.
    pub(super) fn add_option(&mut self, ask: AskId, reply: Reply, form: OptionAnswer) {
        self.options.insert(ask, (reply, form));
    }

    /// Removes an answered change of an option. Returns its open request.
    pub(super) fn take_option(&mut self, ask: &AskId) -> Option<(Reply, OptionAnswer)> {
        self.options.remove(ask)
    }

    /// A client waits for the session to close.
    pub(super) fn add_close(&mut self, reply: Reply) {
        self.closing.push(reply);
    }

    /// Says whether somebody waits for the session to close.
    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// Those who wait for the session to close.
    pub(super) fn take_closing(&mut self) -> Vec<Reply> {
        std::mem::take(&mut self.closing)
    }

    /// Takes everything that a client waits for: its prompts, and its other requests.
    pub(super) fn take_client(&mut self, client: ClientId) -> (Vec<Reply>, Vec<Reply>) {
        let prompts = self.prompts.extract_if(|_, reply| reply.client == client).map(|(_, reply)| reply);
        let prompts = prompts.collect();
        let options = self.options.extract_if(|_, (reply, _)| reply.client == client);
        let options = options.map(|(_, (reply, _))| reply);
        let closing = self.closing.extract_if(.., |reply| reply.client == client);
        (prompts, options.chain(closing).collect())
    }

    /// Takes everybody who waits for a prompt or an option.
    pub(super) fn take_all(&mut self) -> Vec<Reply> {
        self.metas.clear();
        self.senders.clear();
        self.running.clear();
        let options = self.options.drain().map(|(_, (reply, _))| reply);
        self.prompts.drain().map(|(_, reply)| reply).chain(options).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::Version;

    fn message(name: &str) -> MessageId {
        MessageId(name.to_owned())
    }

    fn tag() -> ClientTag {
        ClientTag { id: ClientId::next(), name: None }
    }

    fn prompt(requests: &mut Requests, name: &str, sender: &ClientTag, version: Version) {
        let reply = Reply::for_tests(sender.id, version);
        requests.add_prompt(&message(name), Some(sender.clone()), None, reply);
    }

    #[test]
    fn version_1_waits_for_the_end_of_the_turn_and_version_2_does_not() {
        let (mut requests, one, two) = (Requests::default(), tag(), tag());
        prompt(&mut requests, "a", &one, Version::V1);
        prompt(&mut requests, "b", &two, Version::V2);
        assert!(requests.prompt_inserted(&message("a"), TurnNo(1)).is_none());
        let (_, due) = requests.prompt_inserted(&message("b"), TurnNo(1)).expect("it is due");
        assert_eq!(due, Due::Accepted);
        assert_eq!(requests.prompter(), Some(two.id), "the last one of the turn");
        assert!(requests.waits_for_turn(one.id) && !requests.waits_for_turn(two.id));
        assert_eq!(requests.turn_ended(TurnNo(1)).len(), 1);
        assert_eq!((requests.prompter(), requests.senders().count()), (None, 0));
    }

    #[test]
    fn a_prompt_of_a_turn_that_is_over_is_answered_at_once() {
        let (mut requests, one) = (Requests::after_turn(TurnNo(3)), tag());
        prompt(&mut requests, "a", &one, Version::V1);
        let (_, due) = requests.prompt_inserted(&message("a"), TurnNo(3)).expect("it is due");
        assert_eq!((due, requests.prompter()), (Due::TurnEnd, None));
    }

    #[test]
    fn a_client_that_left_is_still_the_one_whose_prompt_runs() {
        let (mut requests, one) = (Requests::default(), tag());
        prompt(&mut requests, "a", &one, Version::V1);
        assert!(requests.prompt_inserted(&message("a"), TurnNo(1)).is_none());
        let (prompts, others) = requests.take_client(one.id);
        assert_eq!((prompts.len(), others.len()), (1, 0));
        assert_eq!(requests.prompter(), Some(one.id));
        assert!(requests.turn_ended(TurnNo(1)).is_empty());
    }

    #[test]
    fn equal_request_ids_of_two_clients_are_two_requests() {
        let (mut requests, one, two) = (Requests::default(), tag(), tag());
        prompt(&mut requests, "a", &one, Version::V1);
        prompt(&mut requests, "b", &two, Version::V1);
        let id = Id::number(1);
        assert_eq!(requests.prompt_of(one.id, &id), Some(message("a")));
        assert_eq!(requests.prompt_of(two.id, &id), Some(message("b")));
        assert_eq!(requests.prompts_of(two.id), [message("b")]);
    }
}
