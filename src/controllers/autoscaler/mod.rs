//! HorizontalPodAutoscalers: a target's size follows the usage of its pods (HPA-1).
//!
//! Every 15 seconds each autoscaler measures, gets a size from `recommend`, lets `behavior` limit the step, and sets
//! the size through the target's scale. Earlier recommendations and changes are remembered only while the controller
//! runs: a new one starts with the present size.

mod behavior;
mod conditions;
mod metrics;
mod recommend;
mod replicas;
mod target;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, MetricStatus,
};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::context::Context;
use api::{Api, ApiError, Change, ChangeKind, WriteOptions};
use behavior::ScalingHistory;
use conditions::{ConditionType, Conditions};
use object::{Key, Kind, SharedObject, Uid};
use reconcile::{Cache, ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, preconditions};

/// The interval between two syncs of an autoscaler.
const SYNC: Duration = Duration::from_secs(15);

pub(super) fn start(context: &Context) {
    context
        .controller(|queue| AutoscalerController {
            api: context.api.clone(),
            scalers: context.caches.of(),
            pods: context.caches.of(),
            recorder: Recorder::new(&context.api, "horizontal-pod-autoscaler"),
            histories: Mutex::default(),
            queue,
        })
        .keys_of::<HorizontalPodAutoscaler>()
        .watches::<HorizontalPodAutoscaler, _>(AutoscalerController::autoscaler_changed)
        .reads::<Pod>()
        .workers(5)
        .run(&context.tasks);
}

struct AutoscalerController {
    api: Api,
    scalers: Cache<HorizontalPodAutoscaler>,
    pods: Cache<Pod>,
    recorder: Recorder,
    // Locked for single map operations, never across a reconcile.
    histories: Mutex<HashMap<Uid, ScalingHistory>>,
    queue: WorkQueue<Key>,
}

/// The state of one sync, for the status at its end.
struct SyncContext<'a> {
    autoscaler: &'a SharedObject<HorizontalPodAutoscaler>,
    conditions: Conditions,
    /// `None` until the target's scale is known.
    current: Option<i32>,
    desired: Option<i32>,
    rescaled: bool,
    metrics: Option<Vec<MetricStatus>>,
}

/// The target's desired size, and the reason.
struct Rescale {
    replicas: i32,
    reason: String,
}

impl Reconciler for AutoscalerController {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(autoscaler) = self.scalers.get(key) else { return Ok(()) };
        let before = autoscaler.status.as_ref().and_then(|s| s.conditions.clone());
        let mut context = SyncContext {
            autoscaler: &autoscaler,
            conditions: Conditions::new(before, self.api.clock().now()),
            current: None,
            desired: None,
            rescaled: false,
            metrics: None,
        };
        self.context(&mut context);
        self.update_status(context)?;
        Err(ReconcileError::After(SYNC))
    }
}

impl AutoscalerController {
    fn autoscaler_changed(&self, change: &Change) {
        let object = &change.object;
        if change.kind == ChangeKind::Deleted {
            self.histories.lock().remove(object.uid());
        } else if change.previous.as_ref().is_none_or(|before| !before.same_spec(object)) {
            self.queue.add(object.key());
        }
    }

    /// Measures and resizes the target; the caller writes the status. Errors become conditions and events, and the next
    /// sync tries again.
    fn context(&self, context: &mut SyncContext<'_>) {
        let autoscaler = context.autoscaler;
        let (kind, scale) = match target::scale_of(&self.api, autoscaler) {
            Ok(found) => found,
            Err(why) => {
                self.warn(context, "FailedGetScale", &why);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                context.conditions.set(ConditionType::AbleToScale, false, "FailedGetScale", message);
                return;
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        context.conditions.set(ConditionType::AbleToScale, true, "SucceededGetScale", message);
        let current = scale.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0);
        context.current = Some(current);
        let now = self.api.clock().monotonic();
        self.with_history(autoscaler, |past| past.begin(now, current));
        match self.desired_size(context, &scale, current) {
            Some(desired_size) if desired_size.replicas != current => {
                self.rescale(context, kind, scale, current, &desired_size);
            }
            Some(_) => context.desired = Some(current),
            None => {}
        }
    }

    /// Returns the desired size; `None` if it cannot be determined.
    fn desired_size(&self, context: &mut SyncContext<'_>, scale: &Scale, current: i32) -> Option<Rescale> {
        let autoscaler = context.autoscaler;
        let spec = &autoscaler.spec;
        let (least, most) = (spec.min_replicas.unwrap_or(1), spec.max_replicas);
        let desired_size = |replicas, reason: &str| Some(Rescale { replicas, reason: reason.into() });
        if current == 0 && least != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            context.conditions.set(ConditionType::ScalingActive, false, "ScalingDisabled", message);
            return desired_size(0, "");
        }
        if current > most {
            return desired_size(most, "Current number of replicas above Spec.MaxReplicas");
        }
        if current < least {
            return desired_size(least, "Current number of replicas below Spec.MinReplicas");
        }
        let (recommended, metric) = match self.recommend(context, scale, current) {
            Ok(recommendation) => recommendation,
            Err(why) => {
                self.warn(context, "FailedComputeMetricsReplicas", &why);
                return None;
            }
        };
        let now = self.api.clock().monotonic();
        let outcome = self.with_history(autoscaler, |past| past.take(spec, now, current, recommended));
        context.conditions.set(ConditionType::AbleToScale, true, outcome.able.0, outcome.able.1);
        context.conditions.set(
            ConditionType::ScalingLimited,
            outcome.limited,
            outcome.limit.0,
            outcome.limit.1,
        );
        // The stabilization window may resize the target although this recommendation equals the current size.
        // Kubernetes then gives no reason.
        let reason = match recommended.cmp(&current) {
            Ordering::Greater => format!("{metric} above target"),
            Ordering::Less => "All metrics below target".into(),
            Ordering::Equal => String::new(),
        };
        Some(Rescale { replicas: outcome.replicas, reason })
    }

    fn rescale(
        &self,
        context: &mut SyncContext<'_>,
        kind: Kind,
        mut scale: Scale,
        current: i32,
        desired_size: &Rescale,
    ) {
        let autoscaler = context.autoscaler;
        let Rescale { replicas, reason } = desired_size;
        let key = Key::of(&scale.metadata);
        scale.spec.get_or_insert_default().replicas = Some(*replicas);
        let set = self.api.change_scale(kind, &key, &WriteOptions::default(), |_| Ok(scale.clone()));
        if let Err(error) = set {
            self.warn(
                context,
                "FailedRescale",
                &format!("New size: {replicas}; reason: {reason}; error: {error}"),
            );
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            context.conditions.set(ConditionType::AbleToScale, false, "FailedUpdateScale", message);
            return;
        }
        let message = format!("the HPA controller was able to update the target scale to {replicas}");
        context.conditions.set(ConditionType::AbleToScale, true, "SucceededRescale", message);
        let message = format!("New size: {replicas}; reason: {reason}");
        self.recorder.normal(autoscaler.object(), "SuccessfulRescale", message);
        let now = self.api.clock().monotonic();
        self.with_history(autoscaler, |past| past.scaled(now, current, *replicas));
        context.desired = Some(*replicas);
        context.rescaled = true;
    }

    fn warn(&self, context: &SyncContext<'_>, reason: &str, message: &str) {
        self.recorder.warning(context.autoscaler.object(), reason, message);
    }

    fn with_history<T>(
        &self,
        autoscaler: &SharedObject<HorizontalPodAutoscaler>,
        act: impl FnOnce(&mut ScalingHistory) -> T,
    ) -> T {
        act(self.histories.lock().entry(autoscaler.uid().to_string()).or_default())
    }

    /// Writes the status if it has changed.
    fn update_status(&self, context: SyncContext<'_>) -> Result<(), ApiError> {
        let (autoscaler, now) = (context.autoscaler, self.api.clock().time());
        let conditions = context.conditions.into_list();
        let written = preconditions::modify_status(&self.api, autoscaler, |fresh| {
            let before = fresh.status.take().unwrap_or_default();
            let known = context.current.is_some();
            fresh.status = Some(HorizontalPodAutoscalerStatus {
                conditions: conditions.clone(),
                current_replicas: context.current.or(before.current_replicas),
                desired_replicas: context.desired.unwrap_or(before.desired_replicas),
                current_metrics: if known { context.metrics.clone() } else { before.current_metrics },
                last_scale_time: if context.rescaled { Some(now.clone()) } else { before.last_scale_time },
                observed_generation: before.observed_generation,
            });
        });
        ignore_not_found(written)
    }
}
