//! What to read: which containers of which pods, and from where on.

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The last so many lines of each container.
    Tail(i64),
    /// The first line there is.
    Head,
    /// So many seconds ago.
    Since(i64),
}

/// Which containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them, init and ephemeral ones too.
    All,
    /// The one of this name.
    One(String),
}

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pods {
    /// The one of this name.
    Named(String),
    /// Those with these labels (query form).
    Selected(String),
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// In this namespace.
    pub namespace: String,
    /// These pods.
    pub pods: Pods,
    /// These containers.
    pub which: Which,
    /// From here on.
    pub start: Start,
    /// The run before the last restart, instead of the current one.
    pub previous: bool,
}
