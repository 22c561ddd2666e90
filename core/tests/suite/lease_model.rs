//! A model of hosts, guardians and a database that use the lease protocol, with pauses, clocks of different speed, and messages
//! that are lost, late or in another order. Whatever happens: no agent of a session runs on two hosts, no entry is lost, doubled
//! or written by an old epoch, and what a host was told is stored.

use proptest::prelude::*;
use rethread_core::Seq;
use rethread_core::lease::{
    BootMillis, DatabaseMillis, HostLease, HostRecord, LeaseRecord, LeaseRefusal, LeaseTerms, LostAppend,
    Renewal, Watchdog,
};

const TERMS: LeaseTerms = LeaseTerms::STANDARD;
const HOSTS: usize = 3;

/// How long a guardian takes to end a tree.
const ENDING: f64 = 1600.0;

/// Something that happens. Hosts and messages are named by a number of any size.
#[derive(Clone, Debug)]
enum Event {
    /// Time passes, in milliseconds.
    Pass(u64),
    /// A host does what its clock says: renews if it is time, and sends a sign of life.
    Tick(usize),
    /// A host is stopped, or goes on.
    Pause(usize),
    Resume(usize),
    /// A host is asked for the session.
    Claim(usize),
    /// The owner appends, before it lets its agent work.
    Append(usize, u64),
    Release(usize),
    /// A message arrives, or is lost.
    Deliver(usize),
    Lose(usize),
    /// The database retires hosts whose lease has been over for a minute.
    Retire,
}

fn event() -> impl Strategy<Value = Event> {
    let host = 0..HOSTS;
    prop_oneof![
        4 => (1_u64..6000).prop_map(Event::Pass),
        6 => host.clone().prop_map(Event::Tick),
        1 => host.clone().prop_map(Event::Pause),
        2 => host.clone().prop_map(Event::Resume),
        3 => host.clone().prop_map(Event::Claim),
        4 => (host.clone(), 1_u64..4).prop_map(|(host, count)| Event::Append(host, count)),
        1 => host.prop_map(Event::Release),
        12 => any::<usize>().prop_map(Event::Deliver),
        1 => any::<usize>().prop_map(Event::Lose),
        1 => Just(Event::Retire),
    ]
}

/// A message between a host and the database.
#[derive(Clone, Debug)]
enum Message {
    Renew(Renewal),
    Renewed(Renewal),
    Claim {
        lapses: u64,
    },
    Claimed {
        epoch: u64,
        head: Seq,
        lapses: u64,
    },
    Append {
        epoch: u64,
        expected: Seq,
        count: u64,
        lapses: u64,
    },
    Appended {
        outcome: Result<(), LeaseRefusal>,
        epoch: u64,
        upto: Seq,
        lapses: u64,
    },
    /// Asks for the head after a lost answer.
    Look {
        epoch: u64,
        expected: Seq,
        count: u64,
        lapses: u64,
    },
    Release {
        epoch: u64,
    },
}

/// A host as it sees itself.
struct Host {
    lease: HostLease,
    paused: bool,
    /// The epoch and the head that it has.
    owned: Option<(u64, Seq)>,
    /// An append whose answer it waits for.
    waiting: Option<(u64, Seq, u64)>,
    agent: Option<Watchdog>,
    /// Its clock: where it was in the beginning, and its speed.
    offset: f64,
    speed: f64,
}

struct World {
    /// Milliseconds of real time.
    now: f64,
    database_speed: f64,
    hosts: Vec<Host>,
    records: [HostRecord; HOSTS],
    lease: LeaseRecord<usize>,
    /// The epoch of each entry.
    journal: Vec<u64>,
    /// Messages with the host that sends or gets them.
    messages: Vec<(usize, Message)>,
    /// The last entry that any host was told to be stored.
    told: Seq,
    takeovers: usize,
}

impl World {
    fn new(speeds: &[f64]) -> Self {
        let host = |(at, speed): (usize, &f64)| Host {
            lease: HostLease::new(TERMS),
            paused: false,
            owned: None,
            waiting: None,
            agent: None,
            offset: 10_000.0 * (at + 1) as f64,
            speed: *speed,
        };
        let lease = LeaseRecord { epoch: 0, head: Seq(0), host: None };
        Self {
            now: 0.0,
            database_speed: speeds[HOSTS],
            hosts: speeds[..HOSTS].iter().enumerate().map(host).collect(),
            records: [HostRecord::default(); HOSTS],
            lease,
            journal: Vec::new(),
            messages: Vec::new(),
            told: Seq(0),
            takeovers: 0,
        }
    }

    fn clock(&self, host: usize) -> BootMillis {
        BootMillis((self.hosts[host].offset + self.now * self.hosts[host].speed) as u64)
    }

    fn database_clock(&self) -> DatabaseMillis {
        DatabaseMillis((1_000_000.0 + self.now * self.database_speed) as u64)
    }

    /// The real time at which the agent of a host has certainly ended.
    fn agent_ends(&self, host: usize) -> Option<f64> {
        let Host { agent, offset, speed, .. } = &self.hosts[host];
        let left = agent.as_ref()?.left(BootMillis(0))?;
        Some((left as f64 - offset) / speed + ENDING)
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Pass(millis) => self.now += millis as f64,
            Event::Tick(host) => self.tick(host),
            Event::Pause(host) => self.hosts[host].paused = true,
            Event::Resume(host) => self.hosts[host].paused = false,
            Event::Claim(host) => self.ask_claim(host),
            Event::Append(host, count) => self.ask_append(host, count),
            Event::Release(host) => self.release(host),
            Event::Deliver(at) => self.deliver(at),
            Event::Lose(at) => self.lose(at),
            Event::Retire => self.retire(),
        }
    }

    fn tick(&mut self, at: usize) {
        let now = self.clock(at);
        let host = &mut self.hosts[at];
        if host.paused {
            return;
        }
        if now >= host.lease.next_renewal() {
            let renewal = host.lease.ask(now);
            self.messages.push((at, Message::Renew(renewal)));
        }
        if let (Some(watchdog), Some(limit)) = (&mut host.agent, host.lease.beat(now)) {
            // An agent that has been ended is not brought back by a late sign of life.
            if !watchdog.is_over(now) {
                watchdog.beat(limit);
            }
        }
    }

    fn ask_claim(&mut self, at: usize) {
        let host = &self.hosts[at];
        if !host.paused && host.owned.is_none() && host.lease.deadline() > BootMillis(0) {
            let lapses = host.lease.lapses();
            self.messages.push((at, Message::Claim { lapses }));
        }
    }

    fn ask_append(&mut self, at: usize, count: u64) {
        let host = &mut self.hosts[at];
        let Some((epoch, expected)) = host.owned.filter(|_| !host.paused && host.waiting.is_none()) else {
            return;
        };
        host.waiting = Some((epoch, expected, count));
        let lapses = host.lease.lapses();
        self.messages.push((at, Message::Append { epoch, expected, count, lapses }));
    }

    fn release(&mut self, at: usize) {
        let now = self.clock(at);
        let ended = self.agent_ends(at).is_none_or(|ends| ends <= self.now);
        let host = &mut self.hosts[at];
        // A host ends its agent before it releases the session.
        if host.paused
            || host.waiting.is_some()
            || !(ended || host.agent.is_none_or(|agent| agent.is_over(now)))
        {
            return;
        }
        if let Some((epoch, _)) = host.owned.take().filter(|_| ended) {
            host.agent = None;
            self.messages.push((at, Message::Release { epoch }));
        }
    }

    fn retire(&mut self) {
        let over = |record: &HostRecord, now: u64| record.expires_at.0 + 60_000 < now;
        if let Some(host) = self.lease.host
            && over(&self.records[host], self.database_clock().0)
        {
            self.lease.retire();
        }
    }

    /// A lost answer to an append is noticed, and the head is read.
    fn lose(&mut self, at: usize) {
        if self.messages.is_empty() {
            return;
        }
        let (host, message) = self.messages.remove(at % self.messages.len());
        if let Message::Append { epoch, expected, count, lapses } = message {
            self.messages.push((host, Message::Look { epoch, expected, count, lapses }));
        } else if let Message::Appended { lapses, .. } = message
            && let Some((epoch, expected, count)) = self.hosts[host].waiting
        {
            self.messages.push((host, Message::Look { epoch, expected, count, lapses }));
        }
    }

    fn deliver(&mut self, at: usize) {
        if self.messages.is_empty() {
            return;
        }
        let at = at % self.messages.len();
        let (host, message) = self.messages[at].clone();
        let to_host =
            matches!(message, Message::Renewed(_) | Message::Claimed { .. } | Message::Appended { .. });
        if to_host && self.hosts[host].paused {
            return;
        }
        self.messages.remove(at);
        match message {
            Message::Renew(renewal) => {
                let now = self.database_clock();
                self.records[host].renew(TERMS, now);
                self.messages.push((host, Message::Renewed(renewal)));
            }
            Message::Renewed(renewal) => {
                let now = self.clock(host);
                self.hosts[host].lease.granted(renewal, now);
            }
            Message::Claim { lapses } => self.claim(host, lapses),
            Message::Claimed { epoch, head, lapses } => self.claimed(host, epoch, head, lapses),
            Message::Append { epoch, expected, count, lapses } => {
                let outcome = self.lease.append(epoch, expected, count);
                if outcome.is_ok() {
                    self.journal.extend(std::iter::repeat_n(epoch, count as usize));
                }
                let upto = Seq(expected.0 + count);
                self.messages.push((host, Message::Appended { outcome, epoch, upto, lapses }));
            }
            Message::Appended { outcome, epoch, upto, lapses } => {
                self.appended(host, outcome, (epoch, upto), lapses)
            }
            Message::Look { epoch, expected, count, lapses } => {
                self.look(host, (epoch, expected, count), lapses)
            }
            Message::Release { epoch } => self.lease.release(epoch),
        }
    }

    fn claim(&mut self, host: usize, lapses: u64) {
        let owner = self.lease.host.map(|owner| self.records[owner]);
        let taken_over = self.lease.host.is_some();
        if let Ok(epoch) = self.lease.claim(host, owner, self.database_clock()) {
            self.takeovers += usize::from(taken_over);
            let head = self.lease.head;
            self.messages.push((host, Message::Claimed { epoch, head, lapses }));
        }
    }

    fn claimed(&mut self, at: usize, epoch: u64, head: Seq, lapses: u64) {
        let host = &mut self.hosts[at];
        // An answer of the time before a lapse says nothing of now.
        if host.lease.lapses() == lapses && host.owned.is_none() {
            host.owned = Some((epoch, head));
        }
    }

    fn appended(
        &mut self,
        at: usize,
        outcome: Result<(), LeaseRefusal>,
        (epoch, upto): (u64, Seq),
        lapses: u64,
    ) {
        let host = &mut self.hosts[at];
        host.waiting = None;
        if outcome.is_err() || host.lease.lapses() != lapses {
            host.owned = None;
            return;
        }
        // Told: it must be stored, in this epoch.
        self.told = self.told.max(upto);
        assert!(self.journal.len() as u64 >= upto.0, "entry {upto} was told and is not stored");
        assert_eq!(self.journal[upto.0 as usize - 1], epoch, "another epoch wrote what was told");
        if let Some(owned) = &mut host.owned {
            owned.1 = upto;
        }
        self.start_agent(at);
    }

    /// Decides about an append whose answer was lost; sends it again only if it is not there.
    fn look(&mut self, host: usize, (epoch, expected, count): (u64, Seq, u64), lapses: u64) {
        let upto = Seq(expected.0 + count);
        let message = match self.lease.was_stored(epoch, expected, count) {
            Ok(LostAppend::Stored) => Message::Appended { outcome: Ok(()), epoch, upto, lapses },
            Ok(LostAppend::NotStored) => Message::Append { epoch, expected, count, lapses },
            Err(refusal) => Message::Appended { outcome: Err(refusal), epoch, upto, lapses },
        };
        self.messages.push((host, message));
    }

    /// After an append that was stored, the agent of a host works. No other may, then.
    fn start_agent(&mut self, at: usize) {
        let now = self.clock(at);
        let Some(limit) = self.hosts[at].lease.beat(now) else { return };
        let agent = &mut self.hosts[at].agent;
        match agent {
            Some(agent) if !agent.is_over(now) => {}
            Some(_) | None => {
                let mut started = Watchdog::default();
                started.beat(limit);
                *agent = Some(started);
            }
        }
        for other in (0..HOSTS).filter(|other| *other != at) {
            let ends = self.agent_ends(other).unwrap_or(0.0);
            assert!(ends <= self.now, "hosts {at} and {other} have agents at {}: until {ends}", self.now);
        }
    }

    fn check(&self) {
        assert_eq!(self.journal.len() as u64, self.lease.head.0, "the head is the number of entries");
        assert!(self.journal.is_sorted(), "an old epoch wrote after a new one");
        assert!(self.told <= self.lease.head);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn one_host_at_a_time(
        speeds in prop::collection::vec(0.96_f64..1.04, HOSTS + 1),
        events in prop::collection::vec(event(), 1..400),
    ) {
        let mut world = World::new(&speeds);
        for event in &events {
            world.happen(event);
            world.check();
        }
    }
}

/// The model is worth something only if its hosts take sessions over.
#[test]
fn sessions_are_taken_over() {
    let mut world = World::new(&[1.0; HOSTS + 1]);
    let settle = |world: &mut World| {
        while !world.messages.is_empty() {
            world.deliver(0);
        }
    };
    for host in 0..2 {
        world.tick(host);
        settle(&mut world);
    }
    world.ask_claim(0);
    settle(&mut world);
    world.ask_append(0, 2);
    settle(&mut world);
    assert!(world.hosts[0].agent.is_some());
    world.hosts[0].paused = true;
    world.happen(&Event::Pass(14_000));
    world.tick(1);
    settle(&mut world);
    world.ask_claim(1);
    settle(&mut world);
    assert_eq!(world.takeovers, 0, "the lease of host 0 is valid");
    world.happen(&Event::Pass(1500));
    world.ask_claim(1);
    settle(&mut world);
    world.ask_append(1, 1);
    settle(&mut world);
    assert_eq!((world.takeovers, world.journal.as_slice()), (1, &[1, 1, 2][..]));
    assert!(world.hosts[1].agent.is_some());
    // The old owner comes back, and is fenced.
    world.hosts[0].paused = false;
    world.tick(0);
    world.ask_append(0, 1);
    settle(&mut world);
    assert_eq!((world.hosts[0].owned, world.journal.len()), (None, 3));
}
