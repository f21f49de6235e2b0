//! What to read: which containers of which pods, and from where on.

/// Where to start reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The last so many lines of each container.
    Tail(i64),
    /// The first line there is.
    Head,
    /// So many seconds ago.
    Since(i64),
}

/// Which containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All of them, init and ephemeral ones too.
    All,
    /// The one of this name.
    One(String),
}

/// Which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    /// The one of this name.
    Named(String),
    /// Those with these labels (query form).
    Selected(String),
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Follow {
    /// In this namespace.
    pub(crate) namespace: String,
    /// These pods.
    pub(crate) pods: Pods,
    /// These containers.
    pub(crate) which: Which,
    /// From here on.
    pub(crate) start: Start,
    /// The run before the last restart, instead of the current one.
    pub(crate) previous: bool,
}
