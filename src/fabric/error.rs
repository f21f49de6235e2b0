//! The error of a failed step: users see it if the machine does not allow such a network.

use std::io;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct FabricError {
    /// The failed step, in a few words: `address 10.244.0.2`.
    pub step: String,
    /// The kernel's error.
    pub source: io::Error,
}

impl FabricError {
    pub(crate) fn new(step: impl Into<String>, source: io::Error) -> Self {
        Self { step: step.into(), source }
    }

    /// Returns a function that converts an error of this step.
    pub(crate) fn at<E: Into<io::Error>>(step: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::new(step, error.into())
    }

    /// Prefixes the step with the larger step that it is a part of.
    #[must_use]
    pub(crate) fn within(mut self, step: &str) -> Self {
        self.step = format!("{step}: {}", self.step);
        self
    }
}
