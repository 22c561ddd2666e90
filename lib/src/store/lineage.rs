//! Which part of which journal a session's readers see: its own entries, and before them the beginnings of its
//! ancestors. Knows no store.

use rethread_core::Seq;

/// The part of one journal that is seen: the items whose first number is above `after` and not above `upto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer<K> {
    /// Whose journal.
    pub(super) key: K,
    /// Everything up to here is in older layers.
    pub(super) after: Seq,
    /// What follows this is in younger layers, or not seen at all.
    pub(super) upto: Seq,
}

/// Walks from a session with this head to its oldest ancestor. `parent_of` names the parent and where the
/// journals part. The layers come oldest first; those of which nothing is seen are left out.
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
