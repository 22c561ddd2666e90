//! The lease protocol of hosts that share a store, as pure state machines: what a host knows of its own lease, when a
//! guardian ends an agent, and what the database decides. Knows no clock and does no I/O; times are handed in.
//!
//! A host holds one lease for all of its sessions and renews it. The database gives out time by its own clock; the host
//! counts from the moment at which it asked, by a clock that goes on while the machine sleeps, and stops a margin earlier.
//! So its agents have ended when another host may take a session over. What is written is safe without any clock: each
//! takeover raises the epoch of the session, and the database refuses appends of an earlier one.

use crate::Seq;

/// Milliseconds of a host's clock that starts with the machine and goes on while it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootMillis(pub u64);

impl BootMillis {
    /// The time after this many milliseconds.
    #[must_use]
    pub fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// The milliseconds until a time; 0 if it has passed.
    #[must_use]
    pub fn until(self, later: Self) -> u64 {
        later.0.saturating_sub(self.0)
    }
}

/// The times of the protocol, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a lease is valid for the database.
    pub lease: u64,
    /// How often a host renews its lease.
    pub renewal: u64,
    /// How much earlier a host stops by its own clock. It covers clocks of different speed, and ending an agent.
    pub margin: u64,
    /// How long an agent runs without a sign of life of its host.
    pub silence: u64,
}

impl LeaseTerms {
    /// The terms of all hosts.
    pub const STANDARD: Self = Self { lease: 15_000, renewal: 5_000, margin: 3_000, silence: 10_000 };
}

/// What a host knows of its lease.
#[derive(Clone, Copy, Debug)]
pub struct HostLease {
    terms: LeaseTerms,
    /// Agents may run until then.
    deadline: BootMillis,
    /// When to ask again.
    next_renewal: BootMillis,
    lapses: u64,
}

/// A renewal that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    asked_at: BootMillis,
}

impl HostLease {
    /// A host that has no lease yet.
    #[must_use]
    pub fn new(terms: LeaseTerms) -> Self {
        Self { terms, deadline: BootMillis(0), next_renewal: BootMillis(0), lapses: 0 }
    }

    /// Begins to ask for a lease or its renewal. Must be called before the question is sent.
    pub fn ask(&mut self, now: BootMillis) -> Renewal {
        self.next_renewal = now.after(self.terms.renewal);
        Renewal { asked_at: now }
    }

    /// The database has granted a renewal. Answers may be late and in any order: an old one never shortens the lease.
    pub fn granted(&mut self, renewal: Renewal, now: BootMillis) {
        if self.deadline > BootMillis(0) && now >= self.deadline {
            self.lapses += 1;
        }
        let valid = self.terms.lease.saturating_sub(self.terms.margin);
        self.deadline = self.deadline.max(renewal.asked_at.after(valid));
    }

    /// A renewal was refused, failed, or was not answered: asks again after a pause.
    pub fn failed(&mut self, now: BootMillis, pause: u64) {
        self.next_renewal = self.next_renewal.min(now.after(pause));
    }

    /// When to ask again.
    #[must_use]
    pub fn next_renewal(&self) -> BootMillis {
        self.next_renewal
    }

    /// How often the lease was over before it was granted again. An answer of the database to a question that was sent before
    /// such a lapse says nothing of now: another host may have taken the session over in between, so that it has to be asked
    /// again.
    #[must_use]
    pub fn lapses(&self) -> u64 {
        self.lapses
    }

    /// Until when agents may run; 0 without a lease.
    #[must_use]
    pub fn deadline(&self) -> BootMillis {
        self.deadline
    }

    /// The sign of life for guardians: until when their agents may run if no other follows. Nothing if the lease is over.
    #[must_use]
    pub fn beat(&self, now: BootMillis) -> Option<BootMillis> {
        beat(self.terms, now, self.deadline)
    }
}

/// The sign of life of a host whose agents may run until `deadline`.
#[must_use]
pub fn beat(terms: LeaseTerms, now: BootMillis, deadline: BootMillis) -> Option<BootMillis> {
    (now < deadline).then(|| deadline.min(now.after(terms.silence)))
}

/// When a guardian ends its agent. Both clocks are those of one machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watchdog {
    limit: Option<BootMillis>,
}

impl Watchdog {
    /// A sign of life. One that was delayed never takes time away.
    pub fn beat(&mut self, limit: BootMillis) {
        self.limit = Some(self.limit.map_or(limit, |known| known.max(limit)));
    }

    /// Returns whether the agent has to end. Never without a first sign of life: then no lease expires.
    #[must_use]
    pub fn is_over(&self, now: BootMillis) -> bool {
        self.limit.is_some_and(|limit| now >= limit)
    }

    /// The milliseconds until the agent has to end, if it has to.
    #[must_use]
    pub fn left(&self, now: BootMillis) -> Option<u64> {
        self.limit.map(|limit| now.until(limit))
    }
}

/// Milliseconds of the database's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseMillis(pub u64);

/// What the database has of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// Until when its leases are valid.
    pub expires_at: DatabaseMillis,
}

impl HostRecord {
    /// Grants a lease or its renewal, also after it has expired: what was taken over meanwhile has another epoch.
    pub fn renew(&mut self, terms: LeaseTerms, now: DatabaseMillis) {
        self.expires_at = self.expires_at.max(DatabaseMillis(now.0 + terms.lease));
    }

    /// Returns whether its leases are valid.
    #[must_use]
    pub fn is_valid(&self, now: DatabaseMillis) -> bool {
        self.expires_at > now
    }
}

/// What the database has of the lease of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRecord<H> {
    /// Grows with each claim.
    pub epoch: u64,
    /// The last entry.
    pub head: Seq,
    /// The host that claimed it last and has not released it.
    pub host: Option<H>,
}

/// Why the database refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRefusal {
    /// A host with a valid lease owns the session.
    Owned,
    /// The epoch is over.
    Fenced,
    /// The head is elsewhere.
    MovedOn,
}

impl<H: Copy + PartialEq> LeaseRecord<H> {
    /// Claims the session for a host. `owner` is what the database has of the host that is named now.
    pub fn claim(
        &mut self,
        host: H,
        owner: Option<HostRecord>,
        now: DatabaseMillis,
    ) -> Result<u64, LeaseRefusal> {
        if self.host.is_some() && owner.is_some_and(|owner| owner.is_valid(now)) {
            return Err(LeaseRefusal::Owned);
        }
        self.epoch += 1;
        self.host = Some(host);
        Ok(self.epoch)
    }

    /// Appends this many entries. No clock decides, only the epoch and the head.
    pub fn append(&mut self, epoch: u64, expected: Seq, count: u64) -> Result<(), LeaseRefusal> {
        if self.epoch != epoch {
            return Err(LeaseRefusal::Fenced);
        }
        if self.head != expected {
            return Err(LeaseRefusal::MovedOn);
        }
        self.head = Seq(self.head.0 + count);
        Ok(())
    }

    /// Decides whether an append whose answer was lost has been stored. Only the owner of an epoch appends in it, one append
    /// at a time, so that a head behind it is its own.
    pub fn was_stored(&self, epoch: u64, expected: Seq, count: u64) -> Result<LostAppend, LeaseRefusal> {
        match self.head {
            _ if self.epoch != epoch => Err(LeaseRefusal::Fenced),
            head if head == Seq(expected.0 + count) => Ok(LostAppend::Stored),
            head if head == expected => Ok(LostAppend::NotStored),
            _ => Err(LeaseRefusal::MovedOn),
        }
    }

    /// Takes the session from a host whose lease has been over for long. Its epoch ends with that.
    pub fn retire(&mut self) {
        if self.host.take().is_some() {
            self.epoch += 1;
        }
    }

    /// Releases the session, if the epoch is not over.
    pub fn release(&mut self, epoch: u64) {
        if self.epoch == epoch {
            self.host = None;
        }
    }
}

/// What became of an append whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAppend {
    /// It was stored.
    Stored,
    /// It was not stored, and may be sent again.
    NotStored,
}
