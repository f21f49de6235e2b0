//! The way by which an image came here.

use serde::{Deserialize, Serialize};

/// The way an image came into the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Provenance {
    /// A user loaded it: only a user removes it, and no registry is queried for it.
    #[default]
    Loaded,
    /// It was pulled from a registry, and can be pulled again.
    Pulled,
    /// `podium dev` built it, and can build it again.
    Built,
}
