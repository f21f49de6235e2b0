//! The effect of a deletion on the dependents of the deleted object.

/// The treatment of an object's dependents when it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes the dependents afterwards.
    Background,
    /// The dependents are deleted first.
    Foreground,
    /// The dependents stay and lose their owner.
    Orphan,
}
