//! What plugins say of a pod whose node is decided, on its way there.

use std::time::Duration;

use crate::state::pod_info::PodInfo;
use api::Api;

/// What Permit says of a pod whose node is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the framework has this point; no plugin of ours waits there")
)]
pub(crate) enum Permit {
    /// It may go.
    Allow,
    /// It may not, and why: it is tried anew when something changes that helps.
    Refuse(String),
    /// It waits, its room taken, for so long at most, until the plugin allows or refuses it in
    /// [`WaitingPods`](crate::framework::WaitingPods).
    Wait(Duration),
}

/// Whether what a pod needs before it is bound is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreBind {
    /// It is.
    Ready,
    /// It is being made: asked again whenever something changes, and given up after so long.
    Wait(Duration),
}

/// Why a decided pod could not be bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    /// The pod is gone, or somebody else bound it: that change is on its way and nothing need be recorded.
    #[error("{0}")]
    Overtaken(String),
    /// Anything else: the node is gone, the API refused.
    #[error("{0}")]
    Failed(String),
}

/// A decided pod about to be bound. Only here a plugin reaches the API.
#[derive(Clone, Copy)]
pub(crate) struct Binding<'a> {
    /// The API.
    pub(crate) api: &'a Api,
    /// The pod.
    pub(crate) pod: &'a PodInfo,
    /// Its node.
    pub(crate) node: &'a str,
}
