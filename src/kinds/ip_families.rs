//! IP families of services: the families that a service gets, and the consistency of `clusterIP`, `clusterIPs`,
//! `ipFamilies` and `ipFamilyPolicy`. `api::addresses` allocates the addresses.
//!
//! The rules are those of <https://kubernetes.io/docs/concepts/services-networking/dual-stack/>.

use k8s_openapi::api::core::v1::ServiceSpec;

use apimachinery::validate::{FieldError, FieldErrors, Path, names};

/// The family of IPv4, as the API spells it.
pub const IPV4: &str = "IPv4";
/// The family of IPv6, as the API spells it.
pub const IPV6: &str = "IPv6";

const HEADLESS: &str = "None";
const SINGLE: &str = "SingleStack";
const PREFER_DUAL: &str = "PreferDualStack";
const REQUIRE_DUAL: &str = "RequireDualStack";
/// A service has at most one address of each family.
const MAX_ADDRESSES: usize = 2;

/// Returns the family of a valid address.
pub fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { IPV6 } else { IPV4 }
}

fn other(family: &str) -> &'static str {
    if family == IPV4 { IPV6 } else { IPV4 }
}

/// Returns the cluster addresses. Older clients set only `clusterIP`, the first.
pub fn cluster_ips(spec: &ServiceSpec) -> Vec<String> {
    match (spec.cluster_ips.as_deref(), spec.cluster_ip.as_deref()) {
        (Some(list), _) if !list.is_empty() => list.to_vec(),
        (_, Some(ip)) if !ip.is_empty() => vec![ip.to_owned()],
        _ => Vec::new(),
    }
}

fn ips(spec: &ServiceSpec) -> &[String] {
    spec.cluster_ips.as_deref().unwrap_or_default()
}

fn first_ip(spec: &ServiceSpec) -> &str {
    spec.cluster_ip.as_deref().unwrap_or_default()
}

fn families(spec: &ServiceSpec) -> &[String] {
    spec.ip_families.as_deref().unwrap_or_default()
}

fn policy(spec: &ServiceSpec) -> Option<&str> {
    spec.ip_family_policy.as_deref()
}

fn is_external_name(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("ExternalName")
}

fn is_headless(ips: &[String]) -> bool {
    ips == [HEADLESS]
}

fn has_selector(spec: &ServiceSpec) -> bool {
    spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
}

/// Fills in the addresses of the old version that an update leaves out. If the service becomes an `ExternalName`, drops
/// the addresses and families that the update left unchanged.
pub(super) fn carry_over(new: &mut ServiceSpec, old: &ServiceSpec) {
    match (is_external_name(old), is_external_name(new)) {
        (false, true) => {
            if new.cluster_ip == old.cluster_ip && (ips(new).is_empty() || ips(new) == ips(old)) {
                new.cluster_ip = None;
                new.cluster_ips = None;
            }
            if new.ip_families == old.ip_families {
                new.ip_families = None;
            }
            if new.ip_family_policy == old.ip_family_policy {
                new.ip_family_policy = None;
            }
        }
        (false, false) => {
            if first_ip(new).is_empty() {
                new.cluster_ip.clone_from(&old.cluster_ip);
            }
            if ips(new).is_empty() && new.cluster_ip.as_ref() == ips(old).first() {
                new.cluster_ips.clone_from(&old.cluster_ips);
            }
        }
        _ => {}
    }
}

/// Decides the families of a service in a cluster with the families `cluster`, the default one first. Runs after
/// mutating admission and before validation.
pub fn resolve_families(
    new: &mut ServiceSpec,
    old: Option<&ServiceSpec>,
    cluster: &[&'static str],
) -> Vec<FieldError> {
    sync_cluster_ips(new, old);
    // An unchanged service that prefers two families keeps its families, even if the cluster has gained or lost one.
    if is_external_name(new) || old.is_some_and(|old| prefers_as_before(new, old)) {
        return Vec::new();
    }
    let is_free = first_ip(new) == HEADLESS && !has_selector(new);
    if policy(new).is_none() {
        let before = old.and_then(policy);
        let default = if is_free { REQUIRE_DUAL } else { SINGLE };
        new.ip_family_policy = Some(before.unwrap_or(default).to_owned());
    }
    let mut errors = FieldErrors::default();
    let spec = Path::root("spec");
    if first_ip(new).is_empty() != ips(new).is_empty() {
        if ips(new).is_empty() {
            errors.required(&spec.child("clusterIPs"), "");
        } else {
            let detail = "must be empty when `clusterIP` is not specified";
            errors.invalid(&spec.child("clusterIPs"), &ips(new).to_vec(), detail);
        }
    } else if ips(new).first().is_some_and(|first| first != first_ip(new)) {
        errors.invalid(&spec.child("clusterIPs"), &ips(new).to_vec(), "first value must match `clusterIP`");
    }
    address_errors(new, ips(new), &mut errors);
    if errors.count() > 0 {
        return errors.into_vec();
    }
    if let Some(old) = old {
        downgrade(new, old, &mut errors);
    }
    check_policy(new, &mut errors);
    infer_families(new, cluster, &mut errors);
    if errors.count() > 0 {
        return errors.into_vec();
    }
    let is_single = policy(new) == Some(SINGLE);
    if !is_free {
        check_cluster(new, cluster, &mut errors);
        if errors.count() > 0 {
            return errors.into_vec();
        }
    }
    let families = new.ip_families.get_or_insert_default();
    if families.is_empty() {
        families.extend(cluster.first().map(|family| (*family).to_owned()));
    }
    // A headless service without a selector may have both families, independently of the cluster, since another
    // controller or user supplies its endpoints.
    if !is_single && families.len() == 1 && (is_free || cluster.len() == MAX_ADDRESSES) {
        families.push(other(&families[0]).to_owned());
    }
    Vec::new()
}

/// Updates `clusterIPs` if a client changes `clusterIP` alone.
fn sync_cluster_ips(new: &mut ServiceSpec, old: Option<&ServiceSpec>) {
    let Some(old) = old else {
        if !first_ip(new).is_empty() && ips(new).is_empty() {
            new.cluster_ips = Some(vec![first_ip(new).to_owned()]);
        }
        return;
    };
    let same_first = first_ip(old) == first_ip(new);
    if !ips(old).is_empty() && ips(new).is_empty() && same_first {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
    if same_first || ips(old) != ips(new) {
        return;
    }
    new.cluster_ips = match first_ip(new) {
        "" => None,
        first => Some(vec![first.to_owned()]),
    };
}

/// Returns whether the service prefers two families and its type, addresses and families are unchanged.
fn prefers_as_before(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    new.type_ == old.type_
        && policy(new) == Some(PREFER_DUAL)
        && policy(old).is_none_or(|policy| policy == PREFER_DUAL)
        && ips(new) == ips(old)
        && families(new) == families(old)
}

/// Drops the secondary address and family if the policy asks for a single family. Removing them without changing the
/// policy is an error.
fn downgrade(new: &mut ServiceSpec, old: &ServiceSpec, errors: &mut FieldErrors) {
    if policy(new) == Some(SINGLE) {
        if ips(new) == ips(old)
            && let Some(ips) = &mut new.cluster_ips
        {
            ips.truncate(1);
        }
        if families(new) == families(old)
            && let Some(families) = &mut new.ip_families
        {
            families.truncate(1);
        }
        return;
    }
    let reduced = |new: &[String], old: &[String]| !new.is_empty() && new.len() < old.len();
    let spec = Path::root("spec");
    let mut refuse = |label: &str| {
        let detail = format!("must be 'SingleStack' to release the secondary {label}");
        errors.invalid(&spec.child("ipFamilyPolicy"), policy(new).unwrap_or_default(), detail);
    };
    if reduced(ips(new), ips(old)) {
        refuse("cluster IP");
    }
    if reduced(families(new), families(old)) {
        refuse("IP family");
    }
}

fn check_policy(new: &ServiceSpec, errors: &mut FieldErrors) {
    if policy(new) != Some(SINGLE) {
        return;
    }
    let spec = Path::root("spec");
    let both = [(ips(new).len(), "cluster IPs"), (families(new).len(), "IP families")];
    for (_, what) in both.into_iter().filter(|(count, _)| *count == MAX_ADDRESSES) {
        let detail =
            format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        errors.invalid(&spec.child("ipFamilyPolicy"), SINGLE, detail);
    }
}

/// Derives missing families from the addresses.
fn infer_families(new: &mut ServiceSpec, cluster: &[&str], errors: &mut FieldErrors) {
    if first_ip(new) == HEADLESS {
        return;
    }
    let all = ips(new).to_vec();
    for (i, ip) in all.iter().enumerate().skip(families(new).len()) {
        let family = family_of(ip);
        if cluster.contains(&family) {
            new.ip_families.get_or_insert_default().push(family.to_owned());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            errors.invalid(&Path::root("spec.clusterIPs").index(i), &all, detail);
        }
    }
}

/// Reports families that the cluster does not have.
fn check_cluster(new: &ServiceSpec, cluster: &[&str], errors: &mut FieldErrors) {
    let spec = Path::root("spec");
    if policy(new) == Some(REQUIRE_DUAL) && cluster.len() < MAX_ADDRESSES {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&spec.child("ipFamilyPolicy"), REQUIRE_DUAL, detail);
    }
    for (i, family) in families(new).iter().enumerate().filter(|(_, f)| !cluster.contains(&f.as_str())) {
        errors.invalid(&spec.child("ipFamilies").index(i), family, "not configured on this cluster");
    }
}

/// Validates the addresses, families and policy by the rules that do not depend on the old version.
pub(super) fn address_errors(spec: &ServiceSpec, addresses: &[String], errors: &mut FieldErrors) {
    if is_external_name(spec) {
        return;
    }
    let path = Path::root("spec");
    let listed = families(spec);
    for (i, family) in listed.iter().enumerate() {
        errors.one_of(&path.child("ipFamilies").index(i), family, &[IPV4, IPV6]);
        if listed[..i].contains(family) {
            errors.duplicate(&path.child("ipFamilies").index(i), family);
        }
    }
    if let Some(policy) = policy(spec) {
        errors.one_of(&path.child("ipFamilyPolicy"), policy, &[PREFER_DUAL, REQUIRE_DUAL, SINGLE]);
    }
    let path = path.child("clusterIPs");
    let whole = addresses.to_vec();
    let mut invalid = false;
    for (i, ip) in addresses.iter().enumerate() {
        if i == 0 && ip == HEADLESS {
            if addresses.len() > 1 {
                invalid = true;
                errors.invalid(&path, &whole, "'None' must be the first and only value");
            }
            continue;
        }
        let wrong = names::ip(ip);
        invalid |= !wrong.is_empty();
        errors.invalid_each(&path.index(i), ip, wrong);
    }
    if addresses.len() > MAX_ADDRESSES {
        errors.invalid(&path, &whole, "may only hold up to 2 values");
    }
    // The checks below would report the same mistake again.
    if invalid {
        return;
    }
    let count = |family| addresses.iter().filter(|ip| family_of(ip) == family).count();
    if addresses.len() > 1 && (count(IPV4) > 1 || count(IPV6) > 1) {
        errors.invalid(&path, &whole, "may specify no more than one IP for each IP family");
    }
    if is_headless(addresses) {
        return;
    }
    for (i, (ip, family)) in addresses.iter().zip(listed).enumerate() {
        if matches!(family.as_str(), IPV4 | IPV6) && family_of(ip) != family {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&path.index(i), ip, detail);
        }
    }
}

/// Reports fields that an `ExternalName` service may not have.
pub(super) fn external_name_errors(spec: &ServiceSpec, addresses: &[String], errors: &mut FieldErrors) {
    let path = Path::root("spec");
    let detail = "may not be set for ExternalName services";
    let has = [
        (addresses.is_empty(), "clusterIPs"),
        (families(spec).is_empty(), "ipFamilies"),
        (policy(spec).is_none(), "ipFamilyPolicy"),
    ];
    for (_, field) in has.into_iter().filter(|(missing, _)| !missing) {
        errors.forbidden(&path.child(field), detail);
    }
}

/// Reports changes of immutable addresses and families.
pub(super) fn change_errors(new: &ServiceSpec, old: &ServiceSpec, errors: &mut FieldErrors) {
    if is_external_name(new) || is_external_name(old) {
        return;
    }
    let (after, before) = (cluster_ips(new), cluster_ips(old));
    let headless = (is_headless(&after), is_headless(&before));
    if headless == (true, true) {
        return;
    }
    let path = Path::root("spec");
    let is_single = policy(new) == Some(SINGLE);
    let fixed = "may not change once set";
    if after.len() == before.len() {
        for (i, _) in before.iter().enumerate().filter(|(i, ip)| after[*i] != **ip) {
            errors.invalid(&path.child("clusterIPs").index(i), &after, fixed);
        }
    } else if let Some(first) = before.first() {
        if after.is_empty() {
            errors.invalid(&path.child("clusterIPs").index(0), &after, "primary clusterIP can not be unset");
        } else if after.first() != Some(first) {
            errors.invalid(&path.child("clusterIPs").index(0), &after, fixed);
        }
        if after.len() == 1 && before.len() > 1 && !is_single {
            let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
            errors.invalid(&path.child("ipFamilyPolicy"), policy(new).unwrap_or_default(), detail);
        }
    }
    let (listed, former) = (families(new), families(old));
    if headless.0 != headless.1 {
        return;
    }
    let (shown, first) = (listed.to_vec(), path.child("ipFamilies"));
    if listed.len() == former.len() {
        for _ in former.iter().zip(listed).filter(|(before, after)| before != after) {
            errors.invalid(&first.index(0), &shown, fixed);
        }
        return;
    }
    if !former.is_empty() && !listed.is_empty() && listed[0] != former[0] {
        errors.invalid(&first.index(0), &after, fixed);
    }
    if listed.len() == 1 && former.len() > 1 && !is_single {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(&path.child("ipFamilyPolicy"), policy(new).unwrap_or_default(), detail);
    }
}
