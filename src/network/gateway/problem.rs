//! What is wrong with a Gateway, a listener or a route, as a condition says it: the API's reason and a sentence of ours.

/// Why a condition is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// One of the API's.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cause {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Why a route cannot be served at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RouteProblem(pub(super) Cause);

impl RouteProblem {
    /// A value that nothing here can follow: leaving it out would serve something else than is asked for.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self(Cause::new("UnsupportedValue", message))
    }

    /// Filters that contradict each other.
    pub(super) fn incompatible(message: impl Into<String>) -> Self {
        Self(Cause::new("IncompatibleFilters", message))
    }
}
