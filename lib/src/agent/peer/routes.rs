//! Which session of ours gets the messages of an agent's session. An id is for one of them at a time, since their messages
//! could not be told apart.

use tokio::sync::mpsc;

use super::{FromAgent, SessionIdInUse};

/// The sessions of one agent process, by the agent's ids.
#[derive(Default)]
pub(super) struct Routes(foldhash::HashMap<String, SessionRoute>);

struct SessionRoute {
    lines: mpsc::Sender<FromAgent>,
    state: RouteState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteState {
    /// The agent was asked to restore the session and has not answered. It may not have it at all.
    Asked,
    /// The agent has the session open.
    Open,
}

impl Routes {
    /// Routes messages of a session that the agent has open, unless another open session has the same id. One that the agent
    /// was only asked to restore gives way: an agent which uses its id for a new session does not have it.
    pub(super) fn open(&mut self, id: &str, lines: &mpsc::Sender<FromAgent>) -> Result<(), SessionIdInUse> {
        self.add(id, lines, RouteState::Open, |other| other.state == RouteState::Open)
    }

    /// Routes messages of a session that the agent is asked to restore, unless another session has the same id.
    pub(super) fn ask(&mut self, id: &str, lines: &mpsc::Sender<FromAgent>) -> Result<(), SessionIdInUse> {
        self.add(id, lines, RouteState::Asked, |_| true)
    }

    fn add(
        &mut self,
        id: &str,
        lines: &mpsc::Sender<FromAgent>,
        state: RouteState,
        keeps: impl Fn(&SessionRoute) -> bool,
    ) -> Result<(), SessionIdInUse> {
        let other = |known: &SessionRoute| !known.lines.is_closed() && !known.lines.same_channel(lines);
        if self.0.get(id).is_some_and(|known| other(known) && keeps(known)) {
            return Err(SessionIdInUse(id.to_owned()));
        }
        self.0.insert(id.to_owned(), SessionRoute { lines: lines.clone(), state });
        Ok(())
    }

    /// Removes the route of a session and of its sub-agents. Nothing if the id is another session's by now; says whether
    /// it was not.
    pub(super) fn remove(&mut self, id: &str, lines: &mpsc::Sender<FromAgent>) -> bool {
        if !self.0.get(id).is_some_and(|known| known.lines.same_channel(lines)) {
            return false;
        }
        self.0.retain(|_, other| !other.lines.same_channel(lines));
        true
    }

    pub(super) fn get(&self, id: &str) -> Option<mpsc::Sender<FromAgent>> {
        self.0.get(id).map(|route| route.lines.clone())
    }

    /// Where messages go, once for each id.
    pub(super) fn all(&self) -> impl Iterator<Item = &mpsc::Sender<FromAgent>> {
        self.0.values().map(|route| &route.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_to_be_restored_gives_way_to_a_new_one_with_its_id() {
        let (restored, _lines) = mpsc::channel(1);
        let (new, _new_lines) = mpsc::channel(1);
        let (third, _third_lines) = mpsc::channel(1);
        let mut routes = Routes::default();
        assert!(routes.ask("native-1", &restored).is_ok());
        assert!(routes.ask("native-1", &third).is_err(), "two cannot be restored with one id");
        assert!(routes.open("native-1", &new).is_ok());
        assert!(routes.open("native-1", &restored).is_err(), "it is not the agent's session any more");
        assert!(routes.open("native-1", &third).is_err(), "an agent must not use the id of an open session");
        assert!(!routes.remove("native-1", &restored), "it belongs to the new one");
        assert!(routes.get("native-1").is_some_and(|route| route.same_channel(&new)));
        assert!(routes.remove("native-1", &new));
        assert!(routes.get("native-1").is_none());
    }

    #[test]
    fn a_session_that_was_restored_does_not_give_way() {
        let (restored, _lines) = mpsc::channel(1);
        let (new, _new_lines) = mpsc::channel(1);
        let mut routes = Routes::default();
        assert!(routes.ask("native-1", &restored).is_ok());
        assert!(routes.open("native-1", &restored).is_ok());
        assert!(routes.open("sub-agent", &restored).is_ok());
        assert!(routes.open("native-1", &new).is_err());
        assert!(routes.remove("native-1", &restored));
        assert!(routes.get("sub-agent").is_none(), "sub-agents go with it");
    }
}
