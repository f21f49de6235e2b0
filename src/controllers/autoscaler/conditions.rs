//! The conditions of an autoscaler.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;

use base::clock::time;
use object::conditions::{self, ConditionStatus};

/// What an autoscaler says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aspect {
    /// It can read and change its target's size.
    AbleToScale,
    /// It knows what size to want.
    ScalingActive,
    /// It wants another size than it may.
    ScalingLimited,
}

impl Aspect {
    fn text(self) -> &'static str {
        match self {
            Self::AbleToScale => "AbleToScale",
            Self::ScalingActive => "ScalingActive",
            Self::ScalingLimited => "ScalingLimited",
        }
    }
}

/// Conditions in the making; those nobody speaks of stay as they were.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    list: Vec<HorizontalPodAutoscalerCondition>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn new(before: Option<Vec<HorizontalPodAutoscalerCondition>>, now: Timestamp) -> Self {
        Self { list: before.unwrap_or_default(), now }
    }

    /// Sets one; its time is that of the last change between True and False.
    pub(super) fn set(&mut self, aspect: Aspect, holds: bool, reason: &str, message: impl Into<String>) {
        let condition = HorizontalPodAutoscalerCondition {
            type_: aspect.text().into(),
            status: ConditionStatus::from(holds).into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_transition_time: Some(time(self.now)),
            observed_generation: None,
        };
        conditions::set(&mut self.list, condition);
    }

    pub(super) fn into_list(self) -> Option<Vec<HorizontalPodAutoscalerCondition>> {
        Some(self.list).filter(|list| !list.is_empty())
    }
}
