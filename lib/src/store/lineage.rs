//! Computes which parts of which journals a forked session consists of: the beginnings of its ancestors' journals and
//! its own entries. Independent of the kind of store.

use rethread_core::Seq;

/// A part of one journal: the items whose first sequence number is greater than `after` and at most `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer<K> {
    /// The journal that the part belongs to.
    pub(super) key: K,
    /// The entries up to this one are in older layers.
    pub(super) after: Seq,
    /// Later entries are in newer layers, or not part of the session.
    pub(super) upto: Seq,
}

/// Returns the layers of a session from its oldest ancestor to itself, without empty ones. `parent_of` returns the
/// parent of a session and the sequence number at which it was forked.
pub(super) fn lineage<K: Clone, E>(
    key: K,
    head: Seq,
    mut parent_of: impl FnMut(&K) -> Result<Option<(K, Seq)>, E>,
) -> Result<Vec<Layer<K>>, E> {
    let mut layers = Vec::new();
    let mut here = Some((key, head));
    while let Some((key, upto)) = here {
        let parent = parent_of(&key)?;
        let after = parent.as_ref().map_or(Seq(0), |(_, fork)| *fork);
        if upto > after {
            layers.push(Layer { key, after, upto });
        }
        here = parent.map(|(parent, fork)| (parent, upto.min(fork)));
    }
    layers.reverse();
    Ok(layers)
}
