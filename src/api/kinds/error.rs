//! Why a definition of a custom resource is not taken.

use object::TooManyKinds;

/// A definition that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// A built-in kind has this group, and this plural or kind.
    #[error("{0} is built in")]
    BuiltIn(String),
    /// Neither `Namespaced` nor `Cluster`.
    #[error("scope {0:?} is neither \"Namespaced\" nor \"Cluster\"")]
    Scope(String),
    /// Not exactly one version is the one that objects are stored in.
    #[error("exactly one version must have storage=true")]
    Storage,
    /// A path of a column, of the scale or of a selectable field.
    #[error("{field}: {path:?} is no JSON path: {reason}")]
    Path {
        /// The definition's field.
        field: &'static str,
        /// The path.
        path: String,
        /// What does not fit.
        reason: String,
    },
    /// There are too many.
    #[error(transparent)]
    Full(#[from] TooManyKinds),
}
