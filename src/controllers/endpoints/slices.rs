//! The new form: EndpointSlices with at most a hundred endpoints, changed as little as possible.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::member::{Member, Port};
use base::sort::SliceOrder;
use object::owner::controller_reference;
use object::well_known::label::{ENDPOINT_SLICE_MANAGED_BY, HEADLESS_SERVICE, SERVICE_NAME};
use object::{Key, SharedObject};

/// The most endpoints in one slice.
const CAPACITY: usize = 100;
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// The writes that make the slices match the members.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SliceChanges {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Key>,
}

/// Returns true if a slice belongs to this controller.
pub(super) fn is_managed(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.as_ref().and_then(|l| l.get(ENDPOINT_SLICE_MANAGED_BY)).map(String::as_str)
        == Some(CONTROLLER)
}

/// Returns the fewest writes that lead from the service's existing slices to the members.
///
/// Endpoints stay in their slice; new ones fill slices that change anyway, then the fullest with capacity, then new
/// slices. A service without endpoints keeps one empty slice. All endpoints are of one address family.
fn reconcile(
    service: &SharedObject<Service>,
    family: &str,
    members: &[Member],
    zones: &HashMap<String, String>,
    existing: &[SharedObject<EndpointSlice>],
) -> SliceChanges {
    let distribution = service.spec.as_ref().and_then(|s| s.traffic_distribution.as_deref());
    let mut desired: BTreeMap<Vec<Port>, BTreeMap<String, Endpoint>> = BTreeMap::new();
    for member in members {
        let uid = member.target.uid.clone().unwrap_or_default();
        desired.entry(member.ports.clone()).or_default().insert(uid, endpoint(member, zones, distribution));
    }
    if desired.is_empty() {
        desired.insert(Vec::new(), BTreeMap::new());
    }
    let labels = labels(service);
    let (mut create, mut update, mut delete) = (Vec::new(), Vec::new(), Vec::new());
    let mut retained: Vec<Draft> = Vec::new();
    for slice in existing {
        let Some(endpoints) = desired.get_mut(&ports_of(slice)) else {
            delete.push(slice);
            continue;
        };
        let mut draft = Draft {
            before: slice,
            endpoints: Vec::new(),
            is_changed: slice.metadata.labels.as_ref() != Some(&labels),
        };
        for before in slice.endpoints.iter().flatten() {
            let uid = before.target_ref.as_ref().and_then(|t| t.uid.as_deref()).unwrap_or_default();
            match endpoints.remove(uid) {
                Some(after) => {
                    draft.is_changed |= after != *before;
                    draft.endpoints.push(after);
                }
                None => draft.is_changed = true,
            }
        }
        retained.push(draft);
    }
    for (ports, endpoints) in desired {
        let mut same: Vec<&mut Draft> = retained.iter_mut().filter(|d| ports_of(d.before) == ports).collect();
        let is_empty = endpoints.is_empty() && same.iter().all(|d| d.endpoints.is_empty());
        let mut left: Vec<Endpoint> = endpoints.into_values().collect();
        same.order_by_key(|d| (!d.is_changed, CAPACITY.saturating_sub(d.endpoints.len())));
        for draft in &mut same {
            let free = CAPACITY.saturating_sub(draft.endpoints.len()).min(left.len());
            if free > 0 {
                draft.endpoints.extend(left.drain(..free));
                draft.is_changed = true;
            }
        }
        for chunk in left.chunks(CAPACITY) {
            create.push(new_slice(service, family, &labels, &ports, chunk.to_vec()));
        }
        if is_empty && same.is_empty() {
            create.push(new_slice(service, family, &labels, &ports, Vec::new()));
        }
    }
    let mut placeholders = 0;
    let any_full = retained.iter().any(|d| !d.endpoints.is_empty()) || !create.is_empty();
    for draft in retained {
        if draft.endpoints.is_empty() {
            placeholders += 1;
            if any_full || placeholders > 1 {
                delete.push(draft.before);
                continue;
            }
        }
        if draft.is_changed {
            let mut after = EndpointSlice::clone(draft.before);
            after.metadata.labels = Some(labels.clone());
            after.endpoints = (!draft.endpoints.is_empty()).then_some(draft.endpoints);
            update.push(after);
        }
    }
    // A new slice takes the place of one that would be deleted, so that a service that loses or gets its only endpoint
    // has the same slice before and after.
    delete.retain(|slice| {
        let Some(new): Option<EndpointSlice> = create.pop() else { return true };
        let metadata = ObjectMeta { labels: new.metadata.labels, ..slice.metadata.clone() };
        update.push(EndpointSlice { metadata, ..new });
        false
    });
    SliceChanges { create, update, delete: delete.into_iter().map(SharedObject::key).collect() }
}

/// Returns the writes for each address family of the service; slices of other families are deleted.
pub(super) fn by_family(
    service: &SharedObject<Service>,
    members: &[(&'static str, Vec<Member>)],
    zones: &HashMap<String, String>,
    existing: &[SharedObject<EndpointSlice>],
) -> SliceChanges {
    let mut all = SliceChanges::default();
    for (family, members) in members {
        let of_family: Vec<_> =
            existing.iter().filter(|slice| slice.address_type == *family).cloned().collect();
        let SliceChanges { create, update, delete } = reconcile(service, family, members, zones, &of_family);
        all.create.extend(create);
        all.update.extend(update);
        all.delete.extend(delete);
    }
    let is_desired = |slice: &EndpointSlice| members.iter().any(|(family, _)| slice.address_type == *family);
    all.delete.extend(existing.iter().filter(|slice| !is_desired(slice)).map(SharedObject::key));
    all
}

struct Draft<'a> {
    before: &'a SharedObject<EndpointSlice>,
    endpoints: Vec<Endpoint>,
    is_changed: bool,
}

fn labels(service: &SharedObject<Service>) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), service.name().to_string());
    labels.insert(ENDPOINT_SLICE_MANAGED_BY.into(), CONTROLLER.into());
    if super::is_headless(service) {
        labels.insert(HEADLESS_SERVICE.into(), String::new());
    } else {
        labels.remove(HEADLESS_SERVICE);
    }
    labels
}

fn endpoint(
    member: &Member,
    zones: &HashMap<String, String>,
    traffic_distribution: Option<&str>,
) -> Endpoint {
    let zone = member.node.as_ref().and_then(|node| zones.get(node)).cloned();
    Endpoint {
        hints: hints(member, zone.as_deref(), traffic_distribution),
        addresses: vec![member.address.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(member.ready),
            serving: Some(member.serving),
            terminating: Some(member.terminating),
        }),
        hostname: member.hostname.clone(),
        node_name: member.node.clone(),
        target_ref: Some(member.target.clone()),
        zone,
        ..Endpoint::default()
    }
}

/// Returns the zones and nodes that should use the endpoint, if the service prefers close endpoints; none for an
/// endpoint that accepts no requests.
fn hints(member: &Member, zone: Option<&str>, traffic_distribution: Option<&str>) -> Option<EndpointHints> {
    let (near, same_node) = match traffic_distribution {
        Some("PreferClose" | "PreferSameZone") => (member.ready, false),
        Some("PreferSameNode") => (member.ready, true),
        _ => (false, false),
    };
    let for_zones = zone.filter(|_| near).map(|name| vec![ForZone { name: name.into() }]);
    let node = member.node.clone().filter(|_| near && same_node);
    let for_nodes = node.map(|name| vec![ForNode { name }]);
    (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints { for_nodes, for_zones })
}

fn ports_of(slice: &EndpointSlice) -> Vec<Port> {
    let mut ports: Vec<Port> = slice
        .ports
        .iter()
        .flatten()
        .map(|p| Port {
            name: p.name.clone().filter(|n| !n.is_empty()),
            number: p.port.unwrap_or(0),
            protocol: p.protocol.clone(),
            app_protocol: p.app_protocol.clone(),
        })
        .collect();
    ports.order();
    ports
}

fn new_slice(
    service: &SharedObject<Service>,
    family: &str,
    labels: &BTreeMap<String, String>,
    ports: &[Port],
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let ports: Vec<EndpointPort> = ports
        .iter()
        .map(|p| EndpointPort {
            app_protocol: p.app_protocol.clone(),
            name: Some(p.name.clone().unwrap_or_default()),
            port: Some(p.number),
            protocol: p.protocol.clone(),
        })
        .collect();
    EndpointSlice {
        address_type: family.into(),
        endpoints: (!endpoints.is_empty()).then_some(endpoints),
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", service.name())),
            namespace: Some(service.namespace().to_string()),
            labels: Some(labels.clone()),
            owner_references: Some(vec![controller_reference(service.object())]),
            ..ObjectMeta::default()
        },
        ports: (!ports.is_empty()).then_some(ports),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoints::member::testing::{pod, service};
    use crate::endpoints::member::{IPV4, IPV6, member};

    fn members(range: std::ops::Range<usize>, service: &SharedObject<Service>) -> Vec<Member> {
        range
            .map(|n| {
                member(
                    service,
                    &pod(&format!("p{n:04}"), &format!("10.0.{}.{}", n / 250, n % 250), true, json!({})),
                    IPV4,
                )
                .unwrap()
            })
            .collect()
    }

    fn stored(writes: SliceChanges) -> Vec<SharedObject<EndpointSlice>> {
        let name = |(n, mut slice): (usize, EndpointSlice)| {
            slice.metadata.name.get_or_insert(format!("web-{n}"));
            SharedObject::from_value(slice)
        };
        writes.create.into_iter().enumerate().map(name).collect()
    }

    #[test]
    fn slices_hold_a_hundred_and_change_as_little_as_possible_svc_1() {
        let service = service(json!({"clusterIP": "10.1.0.1", "ports": [{"port": 80}]}));
        let zones = HashMap::from([("n1".to_string(), "zone-a".to_string())]);
        let slices = stored(reconcile(&service, IPV4, &members(0..250, &service), &zones, &[]));
        let sizes: Vec<usize> = slices.iter().map(|s| s.endpoints.as_ref().unwrap().len()).collect();
        assert_eq!(sizes, [100, 100, 50]);
        assert_eq!(slices[0].endpoints.as_ref().unwrap()[0].zone.as_deref(), Some("zone-a"));
        assert_eq!(
            reconcile(&service, IPV4, &members(0..250, &service), &zones, &slices),
            SliceChanges::default()
        );

        let writes = reconcile(&service, IPV4, &members(0..251, &service), &zones, &slices);
        assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (0, 1, 0), "one more");
        let writes = reconcile(&service, IPV4, &members(1..251, &service), &zones, &slices);
        assert_eq!(
            (writes.create.len(), writes.update.len(), writes.delete.len()),
            (0, 1, 0),
            "one replaced"
        );
        let writes = reconcile(&service, IPV4, &members(0..200, &service), &zones, &slices);
        assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (0, 0, 1), "one emptied");
    }

    #[test]
    fn a_service_has_the_same_slice_with_and_without_pods_svc_1() {
        let service = service(json!({"clusterIP": "None", "ports": [{"port": 80}]}));
        let zones = HashMap::new();
        let slices = stored(reconcile(&service, IPV4, &[], &zones, &[]));
        assert_eq!((slices.len(), slices[0].endpoints.as_ref()), (1, None));
        assert_eq!(reconcile(&service, IPV4, &[], &zones, &slices), SliceChanges::default());
        let writes = reconcile(&service, IPV4, &members(0..1, &service), &zones, &slices);
        let SliceChanges { create, update, delete } = &writes;
        assert_eq!((create.len(), update.len(), delete.len()), (0, 1, 0));
        let slice = &update[0];
        assert_eq!(
            (slice.metadata.name.as_deref().unwrap(), slice.ports.as_ref().unwrap()[0].port),
            (slices[0].name(), Some(80))
        );
        let used = stored(SliceChanges { create: update.clone(), ..SliceChanges::default() });
        let writes = reconcile(&service, IPV4, &[], &zones, &used);
        assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (0, 1, 0));
        assert_eq!((&writes.update[0].endpoints, &writes.update[0].ports), (&None, &None));
    }

    #[test]
    fn a_service_of_two_families_has_slices_of_each_svc_1_net_5() {
        let families =
            |list: serde_json::Value| service(json!({"ipFamilies": list, "ports": [{"port": 80}]}));
        let both = |n: u8| json!({"status": {"podIPs": [{"ip": format!("10.0.0.{n}")}, {"ip": format!("fd00::{n}")}]}});
        let pods = [
            pod("a", "10.0.0.1", true, both(1)),
            pod("b", "10.0.0.2", true, both(2)),
            pod("c", "10.0.0.3", true, json!({})),
        ];
        for (listed, expected) in [
            (json!(["IPv4"]), vec![("IPv4", vec!["10.0.0.1", "10.0.0.2", "10.0.0.3"])]),
            (
                json!(["IPv6", "IPv4"]),
                vec![
                    ("IPv6", vec!["fd00::1", "fd00::2"]),
                    ("IPv4", vec!["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
                ],
            ),
        ] {
            let service = families(listed);
            let members = crate::endpoints::by_family(&service, &pods);
            let writes = by_family(&service, &members, &HashMap::new(), &[]);
            let slices = stored(writes);
            let shown: Vec<(&str, Vec<&str>)> = slices
                .iter()
                .map(|slice| {
                    let all = slice.endpoints.iter().flatten().flat_map(|e| &e.addresses).map(String::as_str);
                    (slice.address_type.as_str(), all.collect())
                })
                .collect();
            assert_eq!(shown, expected);
            let again = by_family(&service, &members, &HashMap::new(), &slices);
            assert_eq!(again, SliceChanges::default());
            // A family that the service no longer has loses its slices.
            let single = families(json!(["IPv4"]));
            let members = crate::endpoints::by_family(&single, &pods);
            let writes = by_family(&single, &members, &HashMap::new(), &slices);
            let deleted = slices.iter().filter(|slice| slice.address_type == IPV6).count();
            assert_eq!((writes.create.len(), writes.update.len(), writes.delete.len()), (0, 0, deleted));
        }
    }
}
