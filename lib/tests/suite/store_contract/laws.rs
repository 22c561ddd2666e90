//! Laws of reading: whatever is appended, folded and forked, every page size tells the same story as a model
//! that keeps everything in plain lists.

use std::sync::Arc;

use proptest::prelude::*;
use rethread::store::Lease;
use rethread_core::{Entry, Folded, Seq};

use crate::store::{Blocking, append, chunk, entry, fork_of, new_session, read_all};

#[derive(Clone, Debug)]
enum Step {
    Append { session: usize, entries: Vec<Piece> },
    Fold { session: usize, part: u8 },
    Fork { session: usize, part: u8 },
}

#[derive(Clone, Debug)]
enum Piece {
    Whole(u16),
    Chunk(u8, u16),
}

fn pieces() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (0..300_u16).prop_map(Piece::Whole),
        (0..3_u8, 0..300_u16).prop_map(|(id, size)| Piece::Chunk(id, size)),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize, prop::collection::vec(pieces(), 0..6))
            .prop_map(|(session, entries)| Step::Append { session, entries }),
        2 => (0..4_usize, any::<u8>()).prop_map(|(session, part)| Step::Fold { session, part }),
        1 => (0..4_usize, any::<u8>()).prop_map(|(session, part)| Step::Fork { session, part }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn memory_reads_what_the_model_says(steps in prop::collection::vec(steps(), 1..25)) {
        check(&super::memory().store, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn sqlite_reads_what_the_model_says(steps in prop::collection::vec(steps(), 1..25)) {
        check(&super::embedded().store, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn postgres_reads_what_the_model_says(steps in prop::collection::vec(steps(), 1..25)) {
        if let Some(fixture) = super::postgres() {
            check(&fixture.store, steps);
        }
    }
}

fn check(store: &Blocking, steps: Vec<Step>) {
    let mut run = Run { store, model: vec![Told::new(None)], leases: vec![] };
    run.leases.push(store.create(new_session("s0")).unwrap());
    for step in steps {
        run.step(step);
    }
    for session in 0..run.model.len() {
        let expected = run.view(session);
        for budget in [0, 100, 1000, 1_000_000] {
            assert_eq!(
                read_all(store, &name(session), budget),
                expected,
                "session {session}, budget {budget}"
            );
        }
    }
}

/// One session of the model.
struct Told {
    parent: Option<(usize, Seq)>,
    head: Seq,
    folded: Seq,
    items: Vec<Folded>,
}

impl Told {
    fn new(parent: Option<(usize, Seq)>) -> Self {
        let head = parent.map_or(Seq(0), |(_, fork)| fork);
        Self { parent, head, folded: head, items: Vec::new() }
    }
}

struct Run<'a> {
    store: &'a Blocking,
    model: Vec<Told>,
    leases: Vec<Lease>,
}

impl Run<'_> {
    fn step(&mut self, step: Step) {
        let count = self.model.len();
        match step {
            Step::Append { session, entries } => self.append(session % count, &entries),
            Step::Fold { session, part } => self.fold(session % count, part),
            Step::Fork { session, part } => self.fork(session % count, part),
        }
    }

    fn append(&mut self, session: usize, entries: &[Piece]) {
        let entries: Vec<_> = entries.iter().map(make).collect();
        let told = &mut self.model[session];
        for entry in &entries {
            told.head = told.head.next();
            told.items.push(Folded { first: told.head, last: told.head, entry: entry.as_ref().clone() });
        }
        append(self.store, &mut self.leases[session], entries).unwrap();
    }

    fn fold(&mut self, session: usize, part: u8) {
        let upto = self.place(session, part);
        self.store.fold(&self.leases[session], upto).unwrap();
        let cuts: Vec<Seq> = (0..self.model.len()).filter_map(|other| self.cut(other, session)).collect();
        let told = &mut self.model[session];
        let mut stretch = Vec::new();
        for item in std::mem::take(&mut told.items) {
            if item.first <= told.folded || item.first > upto {
                told.items.append(&mut rethread_core::fold(&std::mem::take(&mut stretch)));
                told.items.push(item);
            } else {
                let ends = cuts.contains(&item.last);
                stretch.push(item);
                if ends {
                    told.items.append(&mut rethread_core::fold(&std::mem::take(&mut stretch)));
                }
            }
        }
        told.items.append(&mut rethread_core::fold(&stretch));
        told.folded = told.folded.max(upto);
    }

    fn fork(&mut self, session: usize, part: u8) {
        let fork = self.place(session, part);
        let child = self.model.len();
        self.leases.push(self.store.create(fork_of(&name(child), &name(session), fork.0)).unwrap());
        self.model.push(Told::new(Some((session, fork))));
    }

    /// Some place in a session.
    fn place(&self, session: usize, part: u8) -> Seq {
        Seq(self.model[session].head.0 * u64::from(part) / 255)
    }

    /// Where the view of `other` into the journal of `session` ends, if it has one.
    fn cut(&self, other: usize, session: usize) -> Option<Seq> {
        let (mut here, mut upto) = self.model[other].parent?;
        while here != session {
            let (parent, fork) = self.model[here].parent?;
            (here, upto) = (parent, upto.min(fork));
        }
        Some(upto)
    }

    fn view(&self, session: usize) -> Vec<Folded> {
        let mut view = Vec::new();
        let (mut here, mut upto) = (session, self.model[session].head);
        loop {
            let told = &self.model[here];
            let own = told.items.iter().filter(|item| item.first <= upto).cloned();
            view.splice(0..0, own);
            let Some((parent, fork)) = told.parent else { return view };
            (here, upto) = (parent, upto.min(fork));
        }
    }
}

fn name(session: usize) -> String {
    format!("s{session}")
}

fn make(piece: &Piece) -> Arc<Entry> {
    match piece {
        Piece::Whole(size) => entry(&"w".repeat(usize::from(*size))),
        Piece::Chunk(id, size) => chunk(&format!("m{id}"), &"c".repeat(usize::from(*size))),
    }
}
