//! The owners of a layer's files: a layer that was unpacked with subordinate ids
//! ([`base::subordinate_ids`]) is of use only with the same ids, and one that was unpacked with a single id has lost
//! its owners. So each has a directory of its own.

use super::digest::{ChainId, Digest};

/// The part of a directory's name before the digest of the ids.
const OF_IDS: &str = ".ids-";
/// The length of the digest in a name; an accident costs as many ids as two users have, both of this machine.
const DIGEST_LETTERS: usize = 16;

/// The owners of the layers that this process can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LayerOwners {
    /// The end of their directories' names; empty for root of the machine and for users without subordinate ids.
    ending: String,
}

impl LayerOwners {
    pub(super) fn of_process() -> Self {
        base::subordinate_ids::file_owners().map(|ids| Self::of_ids(&ids)).unwrap_or_default()
    }

    /// The owners by a description of the ids.
    pub(super) fn of_ids(ids: &str) -> Self {
        let digest = Digest::of(ids.as_bytes());
        let short: String = digest.hex().chars().take(DIGEST_LETTERS).collect();
        Self { ending: format!("{OF_IDS}{short}") }
    }

    pub(super) fn are_subordinate(&self) -> bool {
        !self.ending.is_empty()
    }

    /// The name of a layer's directory.
    pub(super) fn directory_name(&self, layer: &ChainId) -> String {
        format!("{}{}", layer.hex(), self.ending)
    }

    /// Returns true if this process can be expected to remove a layer's directory of this name.
    pub(super) fn may_remove(&self, name: &str) -> bool {
        self.are_subordinate() || !name.contains(OF_IDS) || base::subordinate_ids::is_machine_root()
    }
}

/// The chain id in the name of a layer's directory.
pub(super) fn chain_in(name: &str) -> &str {
    name.split_once(OF_IDS).map_or(name, |(chain, _)| chain)
}
