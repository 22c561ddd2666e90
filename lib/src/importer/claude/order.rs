//! The order in which the records of a Claude file are read: from the newest leaf up to the root, as Claude Code itself
//! does, so that branches that were left are not part of it. Parallel tool calls branch the tree: their records are put
//! back. A compaction does not end the walk: what was before it comes before it, and the messages that it kept behind it.

use std::collections::{HashMap, HashSet};

use super::index::{Boundary, Index, Kept, Key, Node, NodeKind};

/// Whose conversation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speakers {
    /// That of the agent itself.
    Main,
    /// That of a sub-agent, whose records are all marked as such.
    Subagent,
}

/// The records of the conversation in order, as places in `index.nodes`.
pub(super) fn conversation(index: &Index, speakers: Speakers) -> Vec<usize> {
    let tree = RecordTree::new(index, speakers);
    let Some(leaf) = tree.leaf() else { return Vec::new() };
    let mut chain = tree.walk(leaf);
    chain.reverse();
    tree.with_siblings(&chain)
}

struct RecordTree<'a> {
    index: &'a Index,
    speakers: Speakers,
    /// The parents that a compaction gives to messages, with the number of the compaction.
    relinked: HashMap<Key, Vec<(usize, Key)>>,
}

impl<'a> RecordTree<'a> {
    fn new(index: &'a Index, speakers: Speakers) -> Self {
        let mut tree = Self { index, speakers, relinked: HashMap::new() };
        for (number, boundary) in index.boundaries.iter().enumerate() {
            tree.relink(number, boundary);
        }
        tree
    }

    /// Puts the messages that a compaction kept behind its anchor, and what followed the anchor behind them.
    fn relink(&mut self, number: usize, boundary: &Boundary) {
        let (anchor, kept, last) = match &boundary.kept {
            Kept::Nothing => return,
            Kept::Messages { anchor, keys } => {
                let all_there = keys.iter().all(|key| self.index.by_key.contains_key(key));
                let Some(last) = keys.last().filter(|_| all_there) else { return };
                (*anchor, keys.clone(), *last)
            }
            Kept::Segment { head, anchor, tail } => (*anchor, vec![*head], *tail),
        };
        let children: Vec<_> = self.index.nodes.iter().filter(|node| node.parent == Some(anchor)).collect();
        for child in children.into_iter().filter(|child| !kept.contains(&child.key)) {
            self.relinked.entry(child.key).or_default().push((number, last));
        }
        let mut parent = anchor;
        for key in kept {
            self.relinked.entry(key).or_default().push((number, parent));
            parent = key;
        }
    }

    fn is_eligible(&self, node: &Node) -> bool {
        !node.gone && !node.foreign && (self.speakers == Speakers::Subagent || !node.sidechain)
    }

    /// The parent of a node, as compactions before `limit` have it.
    fn parent(&self, node: &Node, limit: usize) -> Option<Key> {
        let relinked = self.relinked.get(&node.key).into_iter().flatten();
        let mut relinked = relinked.filter(|(number, _)| *number < limit).map(|(_, parent)| *parent);
        relinked.next_back().or(node.parent)
    }

    /// The newest message that nothing follows.
    fn leaf(&self) -> Option<usize> {
        let eligible = |(_, node): &(usize, &Node)| self.is_eligible(node);
        let nodes = || self.index.nodes.iter().enumerate().filter(eligible);
        let parents: HashSet<_> = nodes().filter_map(|(_, node)| self.parent(node, usize::MAX)).collect();
        let leaves = nodes().rev().filter(|(_, node)| !parents.contains(&node.key));
        let message = leaves.into_iter().find_map(|(at, _)| self.first_message_above(at));
        let newest = || nodes().rev().find(|(_, node)| node.is_message() && !node.meta).map(|(at, _)| at);
        message.or_else(newest)
    }

    fn first_message_above(&self, from: usize) -> Option<usize> {
        let mut seen = HashSet::new();
        let mut at = Some(from);
        while let Some(place) = at.filter(|place| seen.insert(*place)) {
            let node = &self.index.nodes[place];
            if node.is_message() && self.is_eligible(node) {
                return Some(place);
            }
            at = self.place(self.parent(node, usize::MAX)?);
        }
        None
    }

    fn place(&self, key: Key) -> Option<usize> {
        self.index.by_key.get(&key).copied()
    }

    /// The records from a leaf up to the root, each once. A cycle ends the walk.
    fn walk(&self, leaf: usize) -> Vec<usize> {
        let (mut chain, mut taken, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let (mut at, mut limit) = (Some(leaf), usize::MAX);
        while let Some(place) = at.filter(|place| seen.insert((*place, limit))) {
            let node = &self.index.nodes[place];
            if taken.insert(place) {
                chain.push(place);
            }
            let is_boundary = |boundary: &Boundary| boundary.key == node.key;
            let boundary = match node.kind {
                NodeKind::System => self.index.boundaries.iter().rposition(is_boundary),
                NodeKind::User | NodeKind::Assistant | NodeKind::Attachment | NodeKind::Progress => None,
            };
            let above = match boundary {
                Some(number) => {
                    limit = number;
                    self.index.boundaries[number].before.or(node.parent)
                }
                None => self.parent(node, limit),
            };
            at = above.and_then(|key| self.place(key));
        }
        chain
    }

    /// The chain with the records beside it that belong to its messages.
    fn with_siblings(&self, chain: &[usize]) -> Vec<usize> {
        let beside = Siblings::new(self);
        let mut taken: HashSet<_> = HashSet::new();
        let on_chain: HashSet<_> = chain.iter().copied().collect();
        let mut order = Vec::with_capacity(chain.len());
        for &place in chain {
            let node = &self.index.nodes[place];
            if node.gone || !taken.insert(place) {
                continue;
            }
            let parts = node.message.and_then(|message| beside.messages.get(&message));
            let Some(parts) = parts.filter(|_| node.kind == NodeKind::Assistant) else {
                order.push(place);
                continue;
            };
            order.extend(parts.iter().copied().filter(|part| *part == place || taken.insert(*part)));
            let calls = parts.iter().flat_map(|part| &self.index.nodes[*part].calls);
            let results = calls.filter_map(|call| beside.results.get(call)).flatten().copied();
            let mut results: Vec<_> = results.filter(|result| !on_chain.contains(result)).collect();
            results.sort_unstable();
            order.extend(results.into_iter().filter(|result| taken.insert(*result)));
        }
        order
    }
}

/// Records by what they belong to, in the order of the file.
#[derive(Default)]
struct Siblings {
    /// The assistant records of each API message.
    messages: HashMap<Key, Vec<usize>>,
    /// The user records with results of each tool call.
    results: HashMap<Key, Vec<usize>>,
}

impl Siblings {
    fn new(tree: &RecordTree<'_>) -> Self {
        let mut siblings = Self::default();
        for (at, node) in tree.index.nodes.iter().enumerate().filter(|(_, node)| tree.is_eligible(node)) {
            if let Some(message) = node.message.filter(|_| node.kind == NodeKind::Assistant) {
                siblings.messages.entry(message).or_default().push(at);
            }
            for call in &node.results {
                siblings.results.entry(*call).or_default().push(at);
            }
        }
        siblings
    }
}
