//! Conditions of a status: one way to read, set and remove them for every kind.
//!
//! [`set`] is Kubernetes' `SetStatusCondition` and `UpdatePodCondition`: the time of the last transition stays while
//! the status stays. Two kinds have rules of their own, as in Kubernetes: a Deployment's conditions are ordered by
//! their last change ([`set_last`]), and a Job's get a new transition time with every change ([`replace`]).

use std::fmt;

use k8s_openapi::api::apps::v1::{DeploymentCondition, ReplicaSetCondition};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::api::core::v1::{NamespaceCondition, NodeCondition, PodCondition};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{self, Time};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceCondition;

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// The state cannot be determined.
    Unknown,
}

impl ConditionStatus {
    /// Returns the text in a condition's `status`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

impl From<ConditionStatus> for String {
    fn from(status: ConditionStatus) -> Self {
        status.as_str().into()
    }
}

impl From<ConditionStatus> for Option<String> {
    fn from(status: ConditionStatus) -> Self {
        Some(status.into())
    }
}

impl PartialEq<ConditionStatus> for str {
    fn eq(&self, status: &ConditionStatus) -> bool {
        self == status.as_str()
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// One condition of some kind's status.
pub trait Condition: Sized {
    /// Returns the type, such as `Ready`.
    fn type_(&self) -> &str;
    /// Returns `True`, `False` or `Unknown`; empty if not set.
    fn status(&self) -> &str;
    /// Creates a condition; see [`new`].
    fn create(type_: &str, status: ConditionStatus, reason: &str, message: String, now: Time) -> Self;
    /// Copies the time of the last transition from another condition.
    fn keep_transition(&mut self, of: &Self);

    /// Returns true if the status is True.
    fn is_true(&self) -> bool {
        self.is(ConditionStatus::True)
    }

    /// Returns true if the condition has this status.
    fn is(&self, status: ConditionStatus) -> bool {
        *self.status() == status
    }
}

/// Implements [`Condition`] for a type with required (`text`) or optional (`option`) type and status.
macro_rules! condition {
    ($kind:ty, text) => {
        condition!($kind, |field| field.as_str(), ..Self::default());
    };
    ($kind:ty, option) => {
        condition!($kind, |field| field.as_deref().unwrap_or_default(), ..Self::default());
    };
    ($kind:ty, |$field:ident| $read:expr, $($other_fields:tt)+) => {
        impl Condition for $kind {
            fn type_(&self) -> &str {
                let $field = &self.type_;
                $read
            }

            fn status(&self) -> &str {
                let $field = &self.status;
                $read
            }

            #[allow(clippy::needless_update, clippy::useless_conversion, reason = "the kinds differ in their fields")]
            fn create(
                type_: &str,
                status: ConditionStatus,
                reason: &str,
                message: String,
                now: Time,
            ) -> Self {
                Self {
                    type_: type_.to_owned().into(),
                    status: status.into(),
                    reason: reason.to_owned().into(),
                    message: message.into(),
                    last_transition_time: now.into(),
                    $($other_fields)+
                }
            }

            fn keep_transition(&mut self, of: &Self) {
                self.last_transition_time.clone_from(&of.last_transition_time);
            }
        }
    };
}

condition!(APIServiceCondition, text);
condition!(CustomResourceDefinitionCondition, text);
condition!(DeploymentCondition, option);
condition!(ReplicaSetCondition, option);
condition!(HorizontalPodAutoscalerCondition, text);
condition!(JobCondition, text);
condition!(NamespaceCondition, text);
condition!(NodeCondition, text);
condition!(PodCondition, text);
condition!(v1::Condition, |field| field.as_str(), observed_generation: None);

/// Creates a condition whose status begins now.
pub fn new<C: Condition>(
    type_: &str,
    status: impl Into<ConditionStatus>,
    reason: &str,
    message: impl Into<String>,
    now: Time,
) -> C {
    C::create(type_, status.into(), reason, message.into(), now)
}

/// Returns the condition of a type.
pub fn get<'c, C: Condition>(conditions: Option<&'c Vec<C>>, type_: &str) -> Option<&'c C> {
    conditions?.iter().find(|condition| condition.type_() == type_)
}

/// Returns true if the condition of a type exists and is True.
pub fn is_true<C: Condition>(conditions: Option<&Vec<C>>, type_: &str) -> bool {
    get(conditions, type_).is_some_and(Condition::is_true)
}

/// Sets a condition in place of the one of its type. The time of the last transition stays while the status stays.
pub fn set<C: Condition>(conditions: &mut Vec<C>, mut next: C) {
    if let Some(current) = conditions.iter().find(|current| current.type_() == next.type_())
        && current.status() == next.status()
    {
        next.keep_transition(current);
    }
    replace(conditions, next);
}

/// Does the same as [`set`], but moves the condition to the end, as for a Deployment.
pub fn set_last<C: Condition>(conditions: &mut Vec<C>, mut next: C) {
    if let Some(at) = conditions.iter().position(|current| current.type_() == next.type_()) {
        let current = conditions.remove(at);
        if current.status() == next.status() {
            next.keep_transition(&current);
        }
    }
    conditions.push(next);
}

/// Sets a condition, with its own transition time, in place of the one of its type.
pub fn replace<C: Condition>(conditions: &mut Vec<C>, next: C) {
    match conditions.iter_mut().find(|current| current.type_() == next.type_()) {
        Some(current) => *current = next,
        None => conditions.push(next),
    }
}

/// Removes the condition of a type; an empty list becomes `None`.
pub fn remove<C: Condition>(conditions: &mut Option<Vec<C>>, type_: &str) {
    if let Some(list) = conditions {
        list.retain(|condition| condition.type_() != type_);
        if list.is_empty() {
            *conditions = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use base::clock::time;

    fn condition(type_: &str, status: ConditionStatus, reason: &str, second: i64) -> PodCondition {
        PodCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            last_transition_time: Some(time(Timestamp::from_second(second).unwrap())),
            ..PodCondition::default()
        }
    }

    fn text(conditions: &[PodCondition]) -> String {
        let one = |c: &PodCondition| {
            let since = c.last_transition_time.as_ref().unwrap().0.as_second();
            format!("{}={}:{}@{since}", c.type_, c.status, c.reason.as_deref().unwrap_or_default())
        };
        conditions.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_time_of_a_transition_stays_while_the_status_stays() {
        use ConditionStatus::{False, True, Unknown};
        let before = || vec![condition("A", True, "x", 1), condition("B", False, "y", 2)];
        for (rule, next, set_in_place, made_last) in [
            (
                "new",
                condition("C", True, "n", 9),
                "A=True:x@1 B=False:y@2 C=True:n@9",
                "A=True:x@1 B=False:y@2 C=True:n@9",
            ),
            (
                "another reason",
                condition("A", True, "n", 9),
                "A=True:n@1 B=False:y@2",
                "B=False:y@2 A=True:n@1",
            ),
            (
                "another status",
                condition("A", Unknown, "n", 9),
                "A=Unknown:n@9 B=False:y@2",
                "B=False:y@2 A=Unknown:n@9",
            ),
            ("the last one", condition("B", True, "n", 9), "A=True:x@1 B=True:n@9", "A=True:x@1 B=True:n@9"),
        ] {
            let (mut one, mut other) = (before(), before());
            set(&mut one, next.clone());
            set_last(&mut other, next);
            assert_eq!((text(&one).as_str(), text(&other).as_str()), (set_in_place, made_last), "{rule}");
        }
        let mut replaced = before();
        replace(&mut replaced, condition("A", True, "n", 9));
        assert_eq!(text(&replaced), "A=True:n@9 B=False:y@2");
    }

    #[test]
    fn the_last_condition_takes_its_list_with_it() {
        let mut conditions = Some(vec![condition("A", ConditionStatus::True, "x", 1)]);
        assert!(is_true(conditions.as_ref(), "A") && !is_true(conditions.as_ref(), "B"));
        remove(&mut conditions, "B");
        assert!(get(conditions.as_ref(), "A").is_some());
        remove(&mut conditions, "A");
        assert_eq!(conditions, None);
    }
}
