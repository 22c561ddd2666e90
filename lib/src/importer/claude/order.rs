//! The order in which the records of a Claude file are read: from the newest leaf up to the root, as Claude Code itself
//! does, so that branches that were left are not part of it. Parallel tool calls branch the tree: their records are put
//! back. A compaction does not end the walk: what was before it comes before it, and the messages that it kept behind it.

use std::collections::{HashMap, HashSet};

use super::index::{Boundary, Index, Kept, Key, Node, NodeKind, NodeNumber};

/// Whose conversation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speakers {
    /// That of the agent itself.
    Main,
    /// That of a sub-agent, whose records are all marked as such.
    Subagent,
}

/// The records of the conversation in order.
pub(super) fn conversation(index: &Index, speakers: Speakers) -> Vec<NodeNumber> {
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
    /// The compactions by the keys of their records; the last of those with the same key.
    boundaries: HashMap<Key, usize>,
}

impl<'a> RecordTree<'a> {
    fn new(index: &'a Index, speakers: Speakers) -> Self {
        let numbered = || index.boundaries.iter().enumerate();
        let boundaries = numbered().map(|(number, boundary)| (boundary.key, number)).collect();
        let mut tree = Self { index, speakers, relinked: HashMap::new(), boundaries };
        let anchors = anchors(index);
        for (number, boundary) in numbered() {
            tree.relink(number, boundary, &anchors);
        }
        tree
    }

    /// Puts the messages that a compaction kept behind its anchor, and what followed the anchor behind them.
    fn relink(&mut self, number: usize, boundary: &Boundary, anchors: &HashMap<Key, Vec<Key>>) {
        let (anchor, kept, last) = match &boundary.kept {
            Kept::Nothing => return,
            Kept::Messages { anchor, keys } => {
                let all_there = keys.iter().all(|key| self.index.find(*key).is_some());
                let Some(last) = keys.last().filter(|_| all_there) else { return };
                (*anchor, keys.clone(), *last)
            }
            Kept::Segment { head, anchor, tail } => (*anchor, vec![*head], *tail),
        };
        let is_kept: HashSet<_> = kept.iter().copied().collect();
        let children = anchors.get(&anchor).into_iter().flatten();
        for child in children.filter(|child| !is_kept.contains(*child)) {
            self.relinked.entry(*child).or_default().push((number, last));
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

    /// The node that another one names as the one above it.
    fn above(&self, number: NodeNumber, named: Option<Key>) -> Option<NodeNumber> {
        let named = named?;
        // Nearly always it is the record before; one that is not gone is the only one with its key.
        let before = number.checked_sub(1).filter(|before| {
            let node = self.index.node(*before);
            node.key == named && !node.gone
        });
        before.or_else(|| self.index.find(named))
    }

    /// The newest message that nothing follows.
    fn leaf(&self) -> Option<NodeNumber> {
        let eligible = |(_, node): &(NodeNumber, &Node)| self.is_eligible(node);
        let nodes = || self.index.numbered().filter(eligible);
        let mut parents = NodeSet::of(self.index);
        for parent in nodes().filter_map(|(number, node)| self.above(number, self.parent(node, usize::MAX))) {
            parents.insert(parent);
        }
        let mut leaves = nodes().rev().filter(|(number, _)| !parents.contains(*number));
        let mut seen = NodeSet::of(self.index);
        let message = leaves.find_map(|(number, _)| self.first_message_above(number, &mut seen));
        let newest =
            || nodes().rev().find(|(_, node)| node.is_message() && !node.meta).map(|(number, _)| number);
        message.or_else(newest)
    }

    /// Walks up to the first message, over records from which none was found before: those lead to none.
    fn first_message_above(&self, from: NodeNumber, seen: &mut NodeSet) -> Option<NodeNumber> {
        let mut at = Some(from);
        while let Some(number) = at.filter(|number| seen.insert(*number)) {
            let node = self.index.node(number);
            if node.is_message() && self.is_eligible(node) {
                return Some(number);
            }
            at = self.above(number, self.parent(node, usize::MAX));
        }
        None
    }

    /// The records from a leaf up to the root, each once. A cycle ends the walk.
    fn walk(&self, leaf: NodeNumber) -> Vec<NodeNumber> {
        let (mut chain, mut taken) = (Vec::new(), NodeSet::of(self.index));
        // Behind how many compactions each record was seen last. Coming to one a second time ends the walk.
        let mut seen = vec![0; self.index.nodes.len()];
        let (mut passed, mut limit) = (HashSet::new(), usize::MAX);
        let mut at = Some(leaf);
        while let Some(number) = at {
            let stage = NodeNumber::try_from(passed.len() + 1).unwrap_or(NodeNumber::MAX);
            if std::mem::replace(&mut seen[number as usize], stage) == stage {
                break;
            }
            let node = self.index.node(number);
            if taken.insert(number) {
                chain.push(number);
            }
            let above = match self.boundaries.get(&node.key).filter(|_| node.kind == NodeKind::System) {
                Some(boundary) if !passed.insert(*boundary) => break,
                Some(boundary) => {
                    limit = *boundary;
                    self.index.boundaries[limit].before.or(node.parent)
                }
                None => self.parent(node, limit),
            };
            at = self.above(number, above);
        }
        chain
    }

    /// The chain with the records beside it that belong to its messages.
    fn with_siblings(&self, chain: &[NodeNumber]) -> Vec<NodeNumber> {
        let beside = Siblings::new(self);
        let (mut taken, mut on_chain) = (NodeSet::of(self.index), NodeSet::of(self.index));
        for number in chain {
            on_chain.insert(*number);
        }
        let mut order = Vec::with_capacity(chain.len());
        for &number in chain {
            let node = self.index.node(number);
            if node.gone || !taken.insert(number) {
                continue;
            }
            let message = node.message.filter(|_| node.kind == NodeKind::Assistant);
            let parts = message.map(|message| beside.parts(message)).unwrap_or_default();
            if parts.is_empty() {
                order.push(number);
                continue;
            }
            order.extend(parts.iter().copied().filter(|part| *part == number || taken.insert(*part)));
            let calls = parts.iter().flat_map(|part| beside.calls(*part));
            let results = calls.flat_map(|(_, call)| beside.results(*call)).map(|(_, result)| *result);
            let mut results: Vec<_> = results.filter(|result| !on_chain.contains(*result)).collect();
            results.sort_unstable();
            order.extend(results.into_iter().filter(|result| taken.insert(*result)));
        }
        order
    }
}

/// The records that follow the anchors of compactions, in the order of the file.
fn anchors(index: &Index) -> HashMap<Key, Vec<Key>> {
    let mut anchors: HashMap<Key, Vec<Key>> = HashMap::new();
    for boundary in &index.boundaries {
        match boundary.kept {
            Kept::Nothing => {}
            Kept::Messages { anchor, .. } | Kept::Segment { anchor, .. } => {
                anchors.insert(anchor, Vec::new());
            }
        }
    }
    for node in &index.nodes {
        if let Some(children) = node.parent.and_then(|parent| anchors.get_mut(&parent)) {
            children.push(node.key);
        }
    }
    anchors
}

/// A set of nodes: one bit for each.
struct NodeSet(Vec<u64>);

impl NodeSet {
    fn of(index: &Index) -> Self {
        Self(vec![0; index.nodes.len().div_ceil(64)])
    }

    /// Adds a node. Returns whether it was not there.
    fn insert(&mut self, number: NodeNumber) -> bool {
        let was_there = self.contains(number);
        self.0[number as usize / 64] |= 1 << (number % 64);
        !was_there
    }

    fn contains(&self, number: NodeNumber) -> bool {
        self.0[number as usize / 64] & 1 << (number % 64) != 0
    }
}

/// Records by what they belong to, in the order of the file.
struct Siblings<'a> {
    index: &'a Index,
    /// The assistant records, sorted by the API messages that they are parts of.
    messages: Vec<NodeNumber>,
    /// The user records with results, sorted by the tool calls.
    results: Vec<(Key, NodeNumber)>,
}

impl<'a> Siblings<'a> {
    fn new(tree: &RecordTree<'a>) -> Self {
        let index = tree.index;
        let is_part = |node: &Node| {
            node.kind == NodeKind::Assistant && node.message.is_some() && tree.is_eligible(node)
        };
        let parts = index.numbered().filter(|(_, node)| is_part(node));
        let mut messages: Vec<_> = parts.map(|(number, _)| number).collect();
        messages.sort_unstable_by_key(|number| (index.node(*number).message, *number));
        let results = index.results.iter().filter(|(_, number)| tree.is_eligible(index.node(*number)));
        let mut results: Vec<_> = results.copied().collect();
        results.sort_unstable();
        Self { index, messages, results }
    }

    /// The assistant records of an API message.
    fn parts(&self, message: Key) -> &[NodeNumber] {
        equal(&self.messages, |number| self.index.node(*number).message, Some(message))
    }

    /// The tool calls of an assistant record.
    fn calls(&self, number: NodeNumber) -> &[(NodeNumber, Key)] {
        equal(&self.index.calls, |(by, _)| *by, number)
    }

    /// The user records with results of a tool call.
    fn results(&self, call: Key) -> &[(Key, NodeNumber)] {
        equal(&self.results, |(of, _)| *of, call)
    }
}

/// The items of a sorted list that have a value.
fn equal<T, V: Ord>(list: &[T], value_of: impl Fn(&T) -> V, value: V) -> &[T] {
    let begin = list.partition_point(|item| value_of(item) < value);
    let length = list[begin..].partition_point(|item| value_of(item) == value);
    &list[begin..begin + length]
}
