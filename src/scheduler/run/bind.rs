//! Executes a binding: runs the plugins of PreBind, Bind and PostBind in turn.

use std::time::Duration;

use crate::framework::{BindError, Binding, Point, PreBind};
use crate::profile::{Profile, profile_of};

/// The result of a binding.
#[derive(Debug)]
pub(crate) enum BindOutcome {
    /// The pod is bound.
    Done,
    /// The pod's volumes are being prepared: try the binding again, for at most this long.
    Later(Duration),
    /// The binding failed.
    Failed(BindError),
}

/// Binds a decided pod.
pub(crate) fn bind(profiles: &[Profile], binding: &Binding<'_>) -> BindOutcome {
    let Some(profile) = profile_of(profiles, binding.pod) else {
        return BindOutcome::Failed(BindError::Failed("no profile has the pod's schedulerName".into()));
    };
    for plugin in profile.at(Point::PreBind) {
        match plugin.pre_bind(binding) {
            Ok(PreBind::Ready) => {}
            Ok(PreBind::Wait(timeout)) => return BindOutcome::Later(timeout),
            Err(error) => return BindOutcome::Failed(error),
        }
    }
    match profile.at(Point::Bind).find_map(|plugin| plugin.bind(binding)) {
        Some(Ok(())) => {}
        Some(Err(error)) => return BindOutcome::Failed(error),
        None => return BindOutcome::Failed(BindError::Failed("no bind plugin binds the pod".into())),
    }
    for plugin in profile.at(Point::PostBind) {
        plugin.post_bind(binding);
    }
    BindOutcome::Done
}
