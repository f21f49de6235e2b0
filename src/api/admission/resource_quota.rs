//! ResourceQuota: the usage of a write must fit into every quota of its namespace, and is charged before the
//! write is stored (QUO-1). A write that reduces usage is permitted; the quota controller recounts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota, ResourceQuotaSpec};

use crate::quota::{Charge, QuotaLockGuard};
use crate::{Api, ApiError};
use base::mistakes::Mistake;
use base::sort::CollectMap;
use object::quantity::{Amount, ResourceList};
use object::quota::{covers, named_resources};
use object::{Object, SharedObject};

/// If a quota limits one of these resources, every container must set it. Kubernetes' source calls this rule a mistake
/// that it preserves.
const REQUIRED_COMPUTE_RESOURCES: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Charges the write's usage to the quotas of the namespace; a dry run charges nothing.
pub(super) fn charge<'a>(
    api: &'a Api,
    old: Option<&Object>,
    new: &Object,
    dry_run: bool,
) -> Result<Charge<'a>, ApiError> {
    let kinds = api.kinds();
    if new.namespace().is_empty() || !kinds.strategy(new).is_counted() {
        return Ok(Charge::default());
    }
    let namespace = Some(new.namespace());
    let quotas = api.list_as::<ResourceQuota>(namespace);
    if quotas.is_empty() {
        return Ok(Charge::default());
    }
    let now = api.server_clock().now();
    let (used_before, used_after) =
        (old.map(|o| kinds.usage(o, now)).unwrap_or_default(), kinds.usage(new, now));
    let books = api.open_quotas();
    let mut requested = Vec::new();
    for quota in api.list_as::<ResourceQuota>(namespace) {
        let spec = quota.spec.clone().unwrap_or_default();
        let counts = |object: &Object| covers(&spec, object);
        if !counts(new) || !limits(&spec).any(|name| kinds.kind_using(name) == Some(new.kind())) {
            continue;
        }
        if let Some(missing) = new.get::<Pod>().and_then(|pod| missing(&spec, pod)) {
            let message = format!("failed quota: {}: must specify {missing}", quota.name());
            return Err(ApiError::forbidden(new.kind(), new.name(), message));
        }
        let before = if old.is_some_and(counts) { &used_before } else { &ResourceList::new() };
        let more = increase(&spec, before, &used_after);
        if more.is_empty() {
            continue;
        }
        check_fits(&books, &quota, &more, new)?;
        requested.push((quota.key(), more));
    }
    if dry_run || requested.is_empty() { Ok(Charge::default()) } else { books.charge(requested) }
}

fn limits(spec: &ResourceQuotaSpec) -> impl Iterator<Item = &String> {
    spec.hard.iter().flatten().map(|(name, _)| name)
}

/// Returns `limits.cpu for: a,b; memory for: a`; `None` if every container sets all that is required.
fn missing(spec: &ResourceQuotaSpec, pod: &Pod) -> Option<String> {
    let spec_of_pod = pod.spec.as_ref()?;
    let for_all = named_resources(spec_of_pod.resources.as_ref());
    let mut silent: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec_of_pod.containers.iter().chain(spec_of_pod.init_containers.iter().flatten()) {
        let named = named_resources(container.resources.as_ref());
        let unnamed = |name: &&str| !named.contains_key(*name) && !for_all.contains_key(*name);
        for name in limits(spec)
            .map(String::as_str)
            .filter(|n| REQUIRED_COMPUTE_RESOURCES.contains(n))
            .filter(unnamed)
        {
            silent.entry(name).or_default().insert(&container.name);
        }
    }
    let missing = silent.into_iter().map(|(name, containers)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    });
    Some(missing.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// Returns the increase of the resources that the quota limits.
fn increase(spec: &ResourceQuotaSpec, before: &ResourceList, after: &ResourceList) -> ResourceList {
    let more = limits(spec).filter_map(|name| {
        let quantity = after.get(name)?;
        let more = Amount::of(quantity) - Amount::in_list(Some(before), name);
        (more > Amount::ZERO).then(|| (name.clone(), more.to_text_like(quantity)))
    });
    more.collect_map()
}

/// Refuses usage that does not fit. Recounts before a refusal: objects may have been deleted since the last
/// count.
fn check_fits(
    books: &QuotaLockGuard<'_>,
    quota: &SharedObject<ResourceQuota>,
    more: &ResourceList,
    new: &Object,
) -> Result<(), ApiError> {
    if Mistake::IgnoreQuota.is_enabled() || is_counted(quota) && exceeded_resources(quota, more).is_empty() {
        return Ok(());
    }
    let quota = books.recount(&quota.key())?;
    let over = exceeded_resources(&quota, more);
    if over.is_empty() {
        return Ok(());
    }
    let status = quota.status.clone().unwrap_or_default();
    let of = |list: Option<&ResourceList>| {
        let amounts = over.iter().map(|name| {
            let quantity = list.and_then(|l| l.get(*name));
            format!("{name}={}", quantity.map_or("0", |q| q.0.as_str()))
        });
        amounts.collect::<Vec<_>>().join(",")
    };
    let message = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        of(Some(more)),
        of(status.used.as_ref()),
        of(status.hard.as_ref())
    );
    Err(ApiError::forbidden(new.kind(), new.name(), message))
}

/// Returns true if the status covers all limited resources.
fn is_counted(quota: &ResourceQuota) -> bool {
    let hard = quota.spec.as_ref().and_then(|s| s.hard.as_ref());
    let Some(status) = &quota.status else { return false };
    status.hard.as_ref() == hard
        && hard
            .into_iter()
            .flatten()
            .all(|(name, _)| status.used.as_ref().is_some_and(|u| u.contains_key(name)))
}

/// Returns the resources that would exceed the quota.
fn exceeded_resources<'a>(quota: &ResourceQuota, more: &'a ResourceList) -> Vec<&'a str> {
    let hard = quota.spec.as_ref().and_then(|s| s.hard.as_ref());
    let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
    let exceeds = |(name, quantity): &(&String, &_)| {
        Amount::in_list(used, name) + Amount::of(quantity) > Amount::in_list(hard, name)
    };
    more.iter().filter(exceeds).map(|(name, _)| name.as_str()).collect()
}
