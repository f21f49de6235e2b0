//! The extension points at which a profile enables plugins.

/// An extension point. Filter includes PreFilter; Score includes PreScore and NormalizeScore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Point {
    /// Decides if the scheduler may try a pod at all.
    PreEnqueue,
    /// Orders the queue; exactly one plugin.
    QueueSort,
    /// Selects the nodes that fit.
    Filter,
    /// Acts after no node fitted.
    PostFilter,
    /// Ranks the nodes that fit.
    Score,
    /// Reserves what the pod needs on its node.
    Reserve,
    /// Delays or refuses a decided pod.
    Permit,
    /// Prepares what the pod needs before it is bound.
    PreBind,
    /// Binds the pod. The plugins are called in order until one binds it.
    Bind,
    /// Is notified of the binding.
    PostBind,
}

impl Point {
    /// All points, in the order in which a pod passes them.
    pub(crate) const ALL: [Self; 10] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::Filter,
        Self::PostFilter,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    /// Returns its name in Kubernetes' configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
        }
    }
}
