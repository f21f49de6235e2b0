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

    /// Returns the problem of an unsupported value, which must not be ignored: something other than requested would be
    /// served.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("UnsupportedValue", message)
    }

    /// Returns the problem of filters that contradict each other.
    pub(super) fn incompatible(message: impl Into<String>) -> Self {
        Self::new("IncompatibleFilters", message)
    }
}
