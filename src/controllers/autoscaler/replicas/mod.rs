//! Computes the number of replicas for one metric from the ratio of usage to target.
//!
//! The rules are Kubernetes' (page "Horizontal Pod Autoscaling", *Algorithm details*): terminating and failed pods do
//! not count; pods without a measurement count as idle when growing and as fully used when shrinking; pods that are
//! not ready yet count as idle, and only when growing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use base::clock::saturating_after;
use base::sort::CollectMap;
use object::conditions::{Condition as _, ConditionStatus};
use object::owner::is_terminating;
use object::pod::{Phase, condition, phase};
use object::quantity::Amount;
use object::resources::is_sidecar;
use object::well_known::condition::READY;

/// For this long after its start a pod's cpu is not representative: it is counted only while the pod is ready.
const CPU_INITIALIZATION: Duration = Duration::from_mins(5);
/// A pod that became unready this soon after its start counts as never ready.
const INITIAL_READINESS_DELAY: Duration = Duration::from_secs(30);

/// The measurement of one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodMetric {
    /// In thousandths of a core or of a byte.
    pub(super) millis: i64,
    pub(super) at: Timestamp,
    pub(super) window: Duration,
}

/// Measurements by pod name.
pub(super) type Metrics = BTreeMap<String, PodMetric>;

/// The relative deviations from the target that cause no change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    pub(super) up: f64,
    pub(super) down: f64,
}

impl Tolerance {
    fn holds(self, ratio: f64) -> bool {
        (1.0 - self.down..=1.0 + self.up).contains(&ratio)
    }
}

/// The target value of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// A percentage of the pods' requests.
    Utilization(i32),
    /// Thousandths per pod.
    AverageValue(i64),
}

/// The recommendation of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// Percent of the requests; only for a goal of that type.
    pub(super) utilization: Option<i32>,
    /// Thousandths per pod.
    pub(super) average_millis: i64,
}

/// The metric to evaluate.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricQuery<'a> {
    pub(super) resource: &'a str,
    /// Only this container.
    pub(super) container: Option<&'a str>,
    pub(super) goal: Goal,
    pub(super) tolerance: Tolerance,
    pub(super) current: i32,
    pub(super) now: Timestamp,
}

/// Returns the size for the pods' measurements, or the reason why it cannot be determined.
pub(super) fn propose<'a>(
    query: &MetricQuery<'_>,
    pods: impl Iterator<Item = &'a Pod> + Clone,
    mut metrics: Metrics,
) -> Result<Proposal, String> {
    if pods.clone().next().is_none() {
        return Err("no pods returned by selector while calculating replica count".into());
    }
    let groups = group(query, pods.clone(), &metrics);
    metrics.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
    if metrics.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".into());
    }
    let requests = match query.goal {
        Goal::Utilization(_) => requests(query, pods)?,
        Goal::AverageValue(_) => BTreeMap::new(),
    };
    let mut values: BTreeMap<String, i64> =
        metrics.into_iter().map(|(name, m)| (name, m.millis)).collect_map();
    let measured = usage(query.goal, &values, &requests)?;
    let proposal =
        |replicas| Proposal { replicas, utilization: measured.percent, average_millis: measured.average };
    let unready_matter = !groups.unready.is_empty() && measured.ratio > 1.0;
    if !unready_matter && groups.missing.is_empty() {
        if query.tolerance.holds(measured.ratio) {
            return Ok(proposal(query.current));
        }
        return Ok(proposal(ceil(measured.ratio, groups.ready)));
    }
    for name in &groups.missing {
        if measured.ratio < 1.0 {
            values.insert(name.clone(), fully_used(query.goal, requests.get(name).copied()));
        } else if measured.ratio > 1.0 {
            values.insert(name.clone(), 0);
        }
    }
    if unready_matter {
        values.extend(groups.unready.iter().map(|name| (name.clone(), 0)));
    }
    let careful = usage(query.goal, &values, &requests)?.ratio;
    let turned = (measured.ratio < 1.0 && careful > 1.0) || (measured.ratio > 1.0 && careful < 1.0);
    let replicas = ceil(careful, values.len());
    let backwards =
        (careful < 1.0 && replicas > query.current) || (careful > 1.0 && replicas < query.current);
    if turned || backwards || query.tolerance.holds(careful) {
        return Ok(proposal(query.current));
    }
    Ok(proposal(replicas))
}

fn ceil(ratio: f64, pods: usize) -> i32 {
    // `as` saturates.
    (ratio * pods as f64).ceil() as i32
}

/// Returns the usage assumed for a pod without a measurement when shrinking.
fn fully_used(goal: Goal, request: Option<i64>) -> i64 {
    match goal {
        Goal::Utilization(percent) => request.unwrap_or(0).saturating_mul(i64::from(percent.max(100))) / 100,
        Goal::AverageValue(millis) => millis,
    }
}

struct Usage {
    ratio: f64,
    percent: Option<i32>,
    average: i64,
}

fn usage(
    goal: Goal,
    values: &BTreeMap<String, i64>,
    requests: &BTreeMap<String, i64>,
) -> Result<Usage, String> {
    let saturating_sum = |values: &mut dyn Iterator<Item = i64>| values.fold(0i64, i64::saturating_add);
    match goal {
        Goal::AverageValue(target) => {
            let average = saturating_sum(&mut values.values().copied()) / values.len().max(1) as i64;
            Ok(Usage { ratio: average as f64 / target as f64, percent: None, average })
        }
        Goal::Utilization(target) => {
            let known: Vec<_> =
                values.iter().filter_map(|(name, v)| Some((*v, *requests.get(name)?))).collect();
            let used = saturating_sum(&mut known.iter().map(|(value, _)| *value));
            let requested = saturating_sum(&mut known.iter().map(|(_, request)| *request));
            if requested == 0 {
                return Err("no metrics returned matched known pods".into());
            }
            let percent = i32::try_from(i128::from(used) * 100 / i128::from(requested)).unwrap_or(i32::MAX);
            let average = used / known.len() as i64;
            Ok(Usage { ratio: f64::from(percent) / f64::from(target), percent: Some(percent), average })
        }
    }
}

#[derive(Default)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

fn group<'a>(query: &MetricQuery<'_>, pods: impl Iterator<Item = &'a Pod>, metrics: &Metrics) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let measured = metrics.get(&name);
        if is_terminating(&pod.metadata) || phase(pod) == Phase::Failed {
            groups.ignored.insert(name);
        } else if phase(pod) == Phase::Pending {
            groups.unready.insert(name);
        } else if let Some(measured) = measured {
            if query.resource == "cpu" && starts_up(pod, measured, query.now) {
                groups.unready.insert(name);
            } else {
                groups.ready += 1;
            }
        } else {
            groups.missing.insert(name);
        }
    }
    groups
}

/// Returns true if a pod's cpu usage is still that of its start-up rather than of its load.
fn starts_up(pod: &Pod, measured: &PodMetric, now: Timestamp) -> bool {
    let started = pod.status.as_ref().and_then(|s| s.start_time.as_ref());
    let (Some(ready), Some(started)) = (condition(pod, READY), started) else { return true };
    let unready = ready.is(ConditionStatus::False);
    let since = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    if saturating_after(started.0, CPU_INITIALIZATION) > now {
        // A measurement that began before the last change of readiness does not describe the present state.
        unready || measured.at < saturating_after(since, measured.window)
    } else {
        unready && saturating_after(started.0, INITIAL_READINESS_DELAY) > since
    }
}

/// Returns each pod's request in thousandths.
fn requests<'a>(
    query: &MetricQuery<'_>,
    pods: impl Iterator<Item = &'a Pod>,
) -> Result<BTreeMap<String, i64>, String> {
    let mut requests = BTreeMap::new();
    for pod in pods {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let millis = request_of(query, pod, &name)?;
        requests.insert(name, millis);
    }
    Ok(requests)
}

fn request_of(query: &MetricQuery<'_>, pod: &Pod, name: &str) -> Result<i64, String> {
    let (resource, only) = (query.resource, query.container);
    let Some(spec) = &pod.spec else { return Ok(0) };
    let whole = spec.resources.as_ref().and_then(|r| r.requests.as_ref()).filter(|r| !r.is_empty());
    if only.is_none() && whole.is_some() {
        return match object::resources::pod_requests(pod).get(resource) {
            Some(amount) => Ok(amount.millis()),
            None => Err(format!("missing pod-level request for {resource} in Pod {name}")),
        };
    }
    let sidecars = spec.init_containers.iter().flatten().filter(|c| is_sidecar(c));
    let mut total: Option<i64> = None;
    for container in spec.containers.iter().chain(sidecars).filter(|c| only.is_none_or(|only| only == c.name))
    {
        let request = container.resources.as_ref().and_then(|r| r.requests.as_ref()?.get(resource));
        let Some(request) = request else {
            let container = &container.name;
            return Err(format!("missing request for {resource} in container {container} of Pod {name}"));
        };
        total = Some(total.unwrap_or(0).saturating_add(Amount::of(request).millis()));
    }
    match (total, only) {
        (None, Some(only)) => Err(format!("container {only} not found in Pod {name}")),
        (total, _) => Ok(total.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
