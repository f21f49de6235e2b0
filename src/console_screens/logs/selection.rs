//! The selection of logs: pods, containers and start.

/// The position at which reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// The last lines of each container.
    Tail(i64),
    /// The first line.
    Head,
    /// The lines of the last seconds.
    Since(i64),
}

/// The selected containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerFilter {
    /// All containers, including init and ephemeral ones.
    All,
    /// The container of this name.
    One(String),
}

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
