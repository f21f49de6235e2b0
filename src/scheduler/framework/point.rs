//! The extension points at which a profile names its plugins.

/// An extension point. What prepares a point belongs to it: PreFilter to Filter, PreScore and
/// NormalizeScore to Score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Point {
    /// May a pod be tried at all.
    PreEnqueue,
    /// Which pod is tried first; just one plugin.
    QueueSort,
    /// Which nodes take the pod.
    Filter,
    /// What can be done when none does.
    PostFilter,
    /// Which of those that take it is the best.
    Score,
    /// Setting aside what the pod will need on its node.
    Reserve,
    /// Holding a decided pod back for a while, or for good.
    Permit,
    /// Making ready what the pod needs before it is bound.
    PreBind,
    /// Binding; the first plugin that does is the last asked.
    Bind,
    /// Hearing of it.
    PostBind,
}

impl Point {
    /// All of them, in the order in which a pod passes them.
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

    /// Its name in Kubernetes' configuration.
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
