//! Mirrors Endpoints that users wrote, for services without a selector, into EndpointSlices, so that clients of
//! slices see them too (endpointslicemirroring-controller).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::context::Context;
use api::{Api, ApiError, Change, DeleteOptions};
use base::sort::SliceOrder;
use object::owner::{controller_reference, is_terminating};
use object::well_known::annotation::LAST_APPLIED;
use object::well_known::label::{ENDPOINT_SLICE_MANAGED_BY, SERVICE_NAME, SKIP_MIRROR};
use object::{Key, Kind, SharedObject};
use reconcile::{Cache, ReconcileError, Reconciler, Recorder, UpdateExpectations, ignore_not_found};

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Old leader elections stored their leader in Endpoints.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not copied to the slices.
const OF_THE_ENDPOINTS_ALONE: [&str; 2] = [LAST_APPLIED, "endpoints.kubernetes.io/last-change-trigger-time"];
/// The most addresses of one subset.
const MAX_PER_SUBSET: usize = 1000;

pub(crate) fn start(context: &Context) {
    context
        .controller(|_| Mirror {
            api: context.api.clone(),
            endpoints: context.caches.of(),
            services: context.caches.of(),
            slices: context.caches.of(),
            recorder: Recorder::new(&context.api, "endpoint-slice-mirroring-controller"),
            updates: UpdateExpectations::default(),
        })
        .for_::<Endpoints>()
        .watches::<Service, _>(|_, change| Some(change.object.key()))
        .watches::<EndpointSlice, _>(|_, change| slice_changed(change))
        .workers(5)
        .run(&context.tasks);
}

struct Mirror {
    api: Api,
    endpoints: Cache<Endpoints>,
    services: Cache<Service>,
    slices: Cache<EndpointSlice>,
    recorder: Recorder,
    /// Slices this controller wrote.
    updates: UpdateExpectations,
}

impl Reconciler for Mirror {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        // The slices of deleted Endpoints are garbage collected with their owner.
        let Some(endpoints) = self.endpoints.get(key) else { return Ok(()) };
        if !self.updates.satisfied(endpoints.uid(), &self.slices, &self.api) {
            return Ok(());
        }
        let desired = match self.services.get(key) {
            Some(service) if is_mirrored(&service, &endpoints) => {
                self.record_skipped(&endpoints);
                slices(&endpoints)
            }
            _ => Vec::new(),
        };
        match self.write(&endpoints, desired) {
            // Nothing can be written in a terminating namespace.
            Err(ApiError::Forbidden { .. }) => Ok(()),
            other => Ok(other?),
        }
    }

    fn forget(&self, uid: &str) {
        self.updates.forget(uid);
    }
}

fn is_mirrored(service: &Service, endpoints: &Endpoints) -> bool {
    let labels = endpoints.metadata.labels.as_ref();
    let annotations = endpoints.metadata.annotations.as_ref();
    super::selector(service).is_none()
        && service.spec.as_ref().is_none_or(|spec| spec.type_.as_deref() != Some("ExternalName"))
        && !super::legacy::is_managed(endpoints)
        && labels.and_then(|l| l.get(SKIP_MIRROR)).is_none_or(|skip| skip != "true")
        && !annotations.is_some_and(|a| a.contains_key(LEADER))
        && !is_terminating(&endpoints.metadata)
}

impl Mirror {
    fn record_skipped(&self, endpoints: &SharedObject<Endpoints>) {
        let skipped: usize = endpoints.subsets.iter().flatten().map(skipped).sum();
        if skipped > 0 {
            let message = format!(
                "A max of {MAX_PER_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped"
            );
            self.recorder.warning(endpoints.object(), "TooManyAddressesToMirror", message);
        }
    }

    /// Makes as few writes as possible: a slice with the same ports is updated, not replaced.
    fn write(
        &self,
        endpoints: &SharedObject<Endpoints>,
        desired: Vec<EndpointSlice>,
    ) -> Result<(), ApiError> {
        let mut existing = self.slices.controlled_by(endpoints.uid());
        existing.order_by_key(SharedObject::key);
        for desired in desired {
            let same = |s: &SharedObject<EndpointSlice>| {
                s.ports == desired.ports && s.address_type == desired.address_type
            };
            let Some(place) = existing.iter().position(same) else {
                self.updates.expect(endpoints.uid(), &self.api.create_as(desired)?);
                continue;
            };
            let known = existing.swap_remove(place);
            let (is, should) = (&known.metadata, &desired.metadata);
            let same = (&is.labels, &is.annotations) == (&should.labels, &should.annotations);
            if !same || known.endpoints != desired.endpoints {
                let updated = self.api.modify::<EndpointSlice>(&known.key(), |fresh| {
                    fresh.metadata.labels.clone_from(&desired.metadata.labels);
                    fresh.metadata.annotations.clone_from(&desired.metadata.annotations);
                    fresh.endpoints.clone_from(&desired.endpoints);
                    Ok(())
                })?;
                self.updates.expect(endpoints.uid(), &updated);
            }
        }
        for left in existing {
            ignore_not_found(self.api.delete(Kind::EndpointSlice, &left.key(), &DeleteOptions::default()))?;
        }
        Ok(())
    }
}

/// Returns the slices equivalent to the Endpoints: one for each subset and address family.
fn slices(endpoints: &SharedObject<Endpoints>) -> Vec<EndpointSlice> {
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), endpoints.name().to_string());
    labels.insert(ENDPOINT_SLICE_MANAGED_BY.into(), CONTROLLER.into());
    let mut annotations = endpoints.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !OF_THE_ENDPOINTS_ALONE.contains(&name.as_str()));
    let metadata = ObjectMeta {
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        generate_name: Some(format!("{}-", endpoints.name())),
        namespace: Some(endpoints.namespace().to_string()),
        labels: Some(labels),
        owner_references: Some(vec![controller_reference(endpoints.object())]),
        ..ObjectMeta::default()
    };
    let mut all = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        for (address_type, members) in members(subset) {
            all.push(EndpointSlice {
                metadata: metadata.clone(),
                address_type: address_type.into(),
                endpoints: Some(members),
                ports: ports(subset),
            });
        }
    }
    all
}

/// Returns the number of addresses of a subset that are omitted.
fn skipped(subset: &EndpointSubset) -> usize {
    let all = subset.addresses.iter().flatten().count() + subset.not_ready_addresses.iter().flatten().count();
    all.saturating_sub(MAX_PER_SUBSET)
}

fn members(subset: &EndpointSubset) -> BTreeMap<&'static str, Vec<Endpoint>> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
    let mut all: BTreeMap<&str, Vec<Endpoint>> = BTreeMap::new();
    for (address, ready) in ready.chain(others).take(MAX_PER_SUBSET) {
        let type_ = if address.ip.contains(':') { "IPv6" } else { "IPv4" };
        all.entry(type_).or_default().push(member(address, ready));
    }
    all
}

fn member(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn ports(subset: &EndpointSubset) -> Option<Vec<EndpointPort>> {
    let port = |p: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        app_protocol: p.app_protocol.clone(),
        name: Some(p.name.clone().unwrap_or_default()),
        port: Some(p.port),
        protocol: Some(p.protocol.clone().unwrap_or_else(|| "TCP".into())),
    };
    subset.ports.as_ref().map(|ports| ports.iter().map(port).collect())
}

/// Restores slices that another client changes or deletes.
fn slice_changed(change: &Change) -> Option<Key> {
    let labels = change.object.meta().labels.as_ref()?;
    let is_managed = labels.get(ENDPOINT_SLICE_MANAGED_BY).is_some_and(|by| by == CONTROLLER);
    let service = labels.get(SERVICE_NAME).filter(|_| is_managed)?;
    Some(Key::new(change.object.namespace(), service.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoints(labels: &serde_json::Value) -> SharedObject<Endpoints> {
        let value = json!({"metadata": {"name": "db", "namespace": "default", "uid": "e", "labels": labels},
            "subsets": [
                {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}],
                    "notReadyAddresses": [{"ip": "192.0.2.2", "hostname": "h"}],
                    "ports": [{"port": 5432, "protocol": "TCP"}]},
                {"addresses": [{"ip": "192.0.2.3"}], "ports": [{"name": "admin", "port": 1, "protocol": "TCP"}]}]});
        SharedObject::from_value(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn endpoints_by_hand_become_slices_svc_1() {
        let actual: Vec<String> = slices(&endpoints(&json!({"a": "b"})))
            .iter()
            .map(|slice| {
                let one = |e: &Endpoint| {
                    let ready = e.conditions.as_ref().unwrap().ready == Some(true);
                    format!("{}{}", e.addresses[0], if ready { "" } else { "!" })
                };
                let members: Vec<_> = slice.endpoints.iter().flatten().map(one).collect();
                let port = &slice.ports.as_ref().unwrap()[0];
                let name = port.name.as_deref().unwrap();
                format!("{} {name}:{} {}", slice.address_type, port.port.unwrap(), members.join(" "))
            })
            .collect();
        assert_eq!(
            actual,
            ["IPv4 :5432 192.0.2.1 192.0.2.2!", "IPv6 :5432 2001:db8::1", "IPv4 admin:1 192.0.2.3"]
        );
    }

    #[test]
    fn only_endpoints_without_another_writer_are_mirrored_svc_1() {
        let service = |spec: serde_json::Value| -> Service {
            serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": spec})).unwrap()
        };
        let plain = service(json!({"clusterIP": "127.32.1.1"}));
        for (rule, service, labels, expected) in [
            ("by hand", &plain, json!({}), true),
            ("selected", &service(json!({"selector": {"a": "b"}})), json!({}), false),
            ("elsewhere", &service(json!({"type": "ExternalName"})), json!({}), false),
            ("asked not to", &plain, json!({SKIP_MIRROR: "true"}), false),
        ] {
            assert_eq!(is_mirrored(service, &endpoints(&labels)), expected, "{rule}");
        }
    }
}
