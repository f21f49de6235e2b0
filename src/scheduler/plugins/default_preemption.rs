//! DefaultPreemption: finds the node on which evicting pods of lower priority makes room with the least harm.
//!
//! It only decides; the scheduler evicts. Harm is compared in the order of the page "Pod Priority and Preemption":
//! budgets violated, the highest priority among the victims, the sum of their priorities, their number, and the
//! running time of the most important ones.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::fit_error::node_reasons;
use crate::framework::{Plugin, PluginId, PostFilter, PostFilterInput, Preemption};
use crate::reason::{Reason, Refusal};
use crate::state::node_info::NodeInfo;
use crate::state::pod_info::PodInfo;
use base::sort::SliceOrder;

pub(crate) struct DefaultPreemption {
    /// The minimum percentage of the possible nodes that is tried.
    pub(crate) least_percentage: usize,
    /// The minimum number of possible nodes that is tried.
    pub(crate) least_nodes: usize,
}

impl Default for DefaultPreemption {
    fn default() -> Self {
        Self { least_percentage: 10, least_nodes: 100 }
    }
}

/// The evictions from one node.
struct Candidate {
    position: usize,
    /// The pods to evict, most important first.
    victims: Vec<Arc<PodInfo>>,
    violations: usize,
}

/// The cost of an eviction, which is its harm: less is better, the first difference decides.
type PreemptionCost = (usize, i32, i64, usize, Reverse<Timestamp>);

impl Candidate {
    fn harm(&self) -> PreemptionCost {
        let highest = self.victims.first().map_or(i32::MIN, |victim| victim.priority);
        // Priorities may be negative: the offset makes every victim add to the sum.
        let sum = self.victims.iter().map(|victim| i64::from(victim.priority) - i64::from(i32::MIN)).sum();
        let most_important = self.victims.iter().take_while(|victim| victim.priority == highest);
        let earliest = most_important.map(|victim| started(victim)).min().unwrap_or(Timestamp::MAX);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

/// Returns the start time of a pod; a pod not started yet counts as the youngest.
fn started(pod: &PodInfo) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}

/// Orders pods, more important first: by priority, then by running time. Equal pods are ordered by age, and then
/// arbitrarily but reproducibly, because their order in the snapshot differs after a restart.
fn by_importance(a: &Arc<PodInfo>, b: &Arc<PodInfo>) -> Ordering {
    let created = |pod: &PodInfo| pod.pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let key = |pod: &PodInfo| (Reverse(pod.priority), started(pod), created(pod));
    key(a).cmp(&key(b)).then_with(|| a.uid().cmp(b.uid()))
}

fn ineligible(unfit: &PostFilterInput<'_, '_>) -> Option<&'static str> {
    let spec = unfit.pod.pod.spec.as_ref();
    if spec.and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = unfit.snapshot.nominated().node_of(unfit.pod.uid())?;
    let position = unfit.snapshot.position(node)?;
    if unfit.refusals[position].as_ref().is_some_and(|refusal| !refusal.resolvable) {
        return None;
    }
    let victim_goes = unfit.snapshot.nodes()[position]
        .pods
        .iter()
        .any(|other| other.priority < unfit.pod.priority && other.is_terminating() && other.preempted);
    victim_goes.then_some("not eligible due to a terminating pod on the nominated node.")
}

impl DefaultPreemption {
    /// Returns the number of helpful nodes to find among the possible ones.
    fn enough(&self, nodes: usize) -> usize {
        (nodes * self.least_percentage / 100).max(self.least_nodes).min(nodes)
    }

    fn candidates(
        &self,
        unfit: &mut PostFilterInput<'_, '_>,
        reasons: &mut BTreeMap<Reason, usize>,
    ) -> Vec<Candidate> {
        let resolvable = |refusal: &Option<Refusal>| refusal.as_ref().is_some_and(|r| r.resolvable);
        let positions: Vec<usize> =
            (0..unfit.refusals.len()).filter(|position| resolvable(&unfit.refusals[*position])).collect();
        let hopeless = unfit.refusals.len() - positions.len();
        if hopeless > 0 {
            *reasons.entry(Reason::PreemptionNotHelpful).or_default() += hopeless;
        }
        let enough = self.enough(positions.len());
        let start = (unfit.tie_break % positions.len().max(1) as u64) as usize;
        let mut found: Vec<Candidate> = Vec::new();
        let mut harmless = false;
        for position in positions[start..].iter().chain(&positions[..start]) {
            match evict_from(unfit, *position) {
                Ok(candidate) => {
                    harmless |= candidate.violations == 0;
                    found.push(candidate);
                }
                Err(why) => {
                    for reason in why {
                        *reasons.entry(reason).or_default() += 1;
                    }
                }
            }
            if harmless && found.len() >= enough {
                break;
            }
        }
        found
    }
}

/// Returns the pods to evict from a node so that the pod fits, or the reasons why no eviction helps.
fn evict_from(unfit: &mut PostFilterInput<'_, '_>, position: usize) -> Result<Candidate, Vec<Reason>> {
    let node = &unfit.snapshot.nodes()[position];
    let lower = |other: &&Arc<PodInfo>| other.priority < unfit.pod.priority;
    let mut removed: Vec<Arc<PodInfo>> = node.pods.iter().filter(lower).cloned().collect();
    if removed.is_empty() {
        return Err(vec![Reason::NoVictims]);
    }
    removed.order_by(by_importance);
    let mut without = node.clone();
    for pod in &removed {
        unfit.filters.remove(pod, &mut without);
    }
    if !unfit.filters.accept_on(&without) {
        let refusal = unfit.filters.refusals(&without).into_iter().flatten().next();
        put_back(unfit, &removed, &mut without);
        return Err(refusal.map(|refusal| refusal.reasons.as_slice().to_vec()).unwrap_or_default());
    }
    // Put back as many pods as possible: first those whose eviction would violate a budget, then the most important.
    let violates = unfit.snapshot.budgets().violated_by(removed.iter().map(AsRef::as_ref));
    let (breaking, harmless): (Vec<_>, Vec<_>) = removed.into_iter().zip(violates).partition(|(_, v)| *v);
    let mut victims = Vec::new();
    let mut violations = 0;
    for (pod, violates) in breaking.into_iter().chain(harmless) {
        unfit.filters.add(&pod, &mut without);
        if unfit.filters.accept_on(&without) {
            continue;
        }
        unfit.filters.remove(&pod, &mut without);
        violations += usize::from(violates);
        victims.push(pod);
    }
    put_back(unfit, &victims, &mut without);
    victims.order_by(by_importance);
    Ok(Candidate { position, victims, violations })
}

fn put_back(unfit: &mut PostFilterInput<'_, '_>, pods: &[Arc<PodInfo>], node: &mut NodeInfo) {
    for pod in pods {
        unfit.filters.add(pod, node);
    }
}

impl Plugin for DefaultPreemption {
    fn id(&self) -> PluginId {
        PluginId::DefaultPreemption
    }

    fn post_filter(&self, unfit: &mut PostFilterInput<'_, '_>) -> Option<PostFilter> {
        if let Some(why) = ineligible(unfit) {
            return Some(PostFilter::Ineligible(format!("preemption: {why}")));
        }
        let mut reasons = BTreeMap::new();
        let candidates = self.candidates(unfit, &mut reasons);
        let Some(least) = candidates.into_iter().min_by_key(Candidate::harm) else {
            let message = node_reasons(unfit.refusals.len(), &reasons);
            return Some(PostFilter::Hopeless(format!("preemption: {message}")));
        };
        let node = unfit.snapshot.nodes()[least.position].name.clone();
        Some(PostFilter::Preempt(Preemption { node, victims: least.victims }))
    }
}
