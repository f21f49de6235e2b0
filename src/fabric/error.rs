//! The error of a failed step. Users see it if the machine does not allow a fabric.

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

    /// Prefixes the step with the name of the larger step to which it belongs.
    #[must_use]
    pub(crate) fn within(mut self, step: &str) -> Self {
        self.step = format!("{step}: {}", self.step);
        self
    }
}
