//! Errors in the definition of a custom resource.

use object::TooManyKinds;

/// The reason why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The group and the plural or kind are those of a built-in kind.
    #[error("{0} is a built-in resource")]
    BuiltIn(String),
    /// The scope is neither `Namespaced` nor `Cluster`.
    #[error("invalid scope {0:?}: must be \"Namespaced\" or \"Cluster\"")]
    Scope(String),
    /// Not exactly one version is the storage version.
    #[error("exactly one version must have storage=true")]
    Storage,
    /// A JSONPath of a column, a selectable field or the scale subresource is invalid.
    #[error("{field}: invalid JSONPath {path:?}: {reason}")]
    Path {
        /// The path's field in the definition.
        field: &'static str,
        /// The path.
        path: String,
        /// The reason why it is invalid.
        reason: String,
    },
    /// The process has reached its limit of kinds.
    #[error(transparent)]
    Full(#[from] TooManyKinds),
}
