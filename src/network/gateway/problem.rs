//! Problems of a Gateway, a listener or a route, as conditions state them: the API's reason and a message.

/// The reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// One of the API's reasons.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cause {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The reason why a route cannot be served at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteProblem(pub(super) Cause);

impl RouteProblem {
    /// A value that is not supported: ignoring it would serve something other than requested.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self(Cause::new("UnsupportedValue", message))
    }

    /// Filters that contradict each other.
    pub(super) fn incompatible(message: impl Into<String>) -> Self {
        Self(Cause::new("IncompatibleFilters", message))
    }
}
