//! Results of plugins between the decision and the binding of a pod.

use std::time::Duration;

use crate::state::pod_info::PodInfo;
use api::Api;

/// The result of Permit for a pod with a decided node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "the framework has this point, but no plugin waits there"))]
pub(crate) enum Permit {
    /// The pod may be bound.
    Allow,
    /// The pod is refused for this reason: it is tried again after a change that helps.
    Refuse(String),
    /// The pod waits with its resources assumed, at most this long, until the plugin allows or rejects it in
    /// [`WaitingPods`](crate::framework::WaitingPods).
    Wait(Duration),
}

/// The result of PreBind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreBind {
    /// Everything that the pod needs is prepared.
    Ready,
    /// The preparation continues: PreBind is called again after every change, for at most this long.
    Wait(Duration),
}

/// The reason why a decided pod could not be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    /// The pod is deleted, or another binder bound it. The scheduler will receive that change, so nothing is recorded.
    #[error("{0}")]
    Overtaken(String),
    /// Any other error: the node is deleted, the API refused.
    #[error("{0}")]
    Failed(String),
}

/// A decided pod about to be bound. Plugins reach the API only through this.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) api: &'a Api,
    pub(crate) pod: &'a PodInfo,
    pub(crate) node: &'a str,
}
