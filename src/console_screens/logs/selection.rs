//! The selection of logs: pods, containers and start.

use console_operations::effect::{ContainerFilter, LogStart};

/// The selected pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The pod of this name.
    Named(String),
    /// The pods that match this label selector (query form).
    Selected(String),
}

/// A selection of logs to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSelection {
    /// The namespace of the pods.
    pub namespace: String,
    /// The pods.
    pub pods: Pods,
    /// Their containers.
    pub which: ContainerFilter,
    /// The position at which each log starts.
    pub start: LogStart,
    /// Reads the run before the last restart instead of the current one.
    pub previous: bool,
}
