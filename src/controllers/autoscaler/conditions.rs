//! The conditions of an autoscaler.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;

use base::clock::time;
use object::conditions::{self};

/// The types of an autoscaler's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionType {
    /// The target's size can be read and changed.
    AbleToScale,
    /// The desired size is known.
    ScalingActive,
    /// The desired size was limited.
    ScalingLimited,
}

impl ConditionType {
    fn text(self) -> &'static str {
        match self {
            Self::AbleToScale => "AbleToScale",
            Self::ScalingActive => "ScalingActive",
            Self::ScalingLimited => "ScalingLimited",
        }
    }
}

/// The conditions that a sync sets; other conditions stay as they were.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    list: Vec<HorizontalPodAutoscalerCondition>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn new(before: Option<Vec<HorizontalPodAutoscalerCondition>>, now: Timestamp) -> Self {
        Self { list: before.unwrap_or_default(), now }
    }

    /// Sets a condition; its time is that of the last change between True and False.
    pub(super) fn set(
        &mut self,
        aspect: ConditionType,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let condition = conditions::new(aspect.text(), holds, reason, message, time(self.now));
        conditions::set(&mut self.list, condition);
    }

    pub(super) fn into_list(self) -> Option<Vec<HorizontalPodAutoscalerCondition>> {
        Some(self.list).filter(|list| !list.is_empty())
    }
}
