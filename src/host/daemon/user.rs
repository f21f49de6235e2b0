//! The user that a container runs as.

/// The user a child becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The supplementary groups.
    pub(super) groups: Vec<u32>,
}
