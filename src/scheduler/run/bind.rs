//! Carries a binding out: asks the plugins of PreBind, Bind and PostBind in turn.

use std::time::Duration;

use crate::framework::{BindError, Binding, Point, PreBind};
use crate::profile::{Profile, profile_of};

/// What came of it.
#[derive(Debug)]
pub(crate) enum Bound {
    /// The pod is on its node.
    Done,
    /// What it needs there is being made; to be tried again, for so long at most.
    Later(Duration),
    /// It is not.
    Failed(BindError),
}

/// Binds a decided pod.
pub(crate) fn bind(profiles: &[Profile], binding: &Binding<'_>) -> Bound {
    let Some(profile) = profile_of(profiles, binding.pod) else {
        return Bound::Failed(BindError::Failed("no profile is for the pod".into()));
    };
    for plugin in profile.at(Point::PreBind) {
        match plugin.pre_bind(binding) {
            Ok(PreBind::Ready) => {}
            Ok(PreBind::Wait(timeout)) => return Bound::Later(timeout),
            Err(error) => return Bound::Failed(error),
        }
    }
    match profile.at(Point::Bind).find_map(|plugin| plugin.bind(binding)) {
        Some(Ok(())) => {}
        Some(Err(error)) => return Bound::Failed(error),
        None => return Bound::Failed(BindError::Failed("no plugin binds the pod".into())),
    }
    for plugin in profile.at(Point::PostBind) {
        plugin.post_bind(binding);
    }
    Bound::Done
}
