//! Preflight: checks that the kernel accepts the rules of services and policies, before anything relies on it.

use std::io;
use std::net::SocketAddr;

use fabric::FabricError;
use fabric::nft::{Batch, Family, Nft, Table};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use object::{Key, SharedObject, TypedKind as _};
use serde_json::json;

use super::base::{EgressMode, base};
use super::kernel::Kernel;
use super::nodes::NodesByName;
use super::owner_rules::{BatchSteps, FamilyRules, RulesUpdate};
use super::policy_rules::PolicyRules;
use super::services;
use ::services::ServiceEndpoints;
use base::sort::CollectMap;

/// Writes the IPv4 tables of a cluster that has one service with one endpoint and client affinity, and a policy that
/// accepts peers in the range `pods`.
pub fn try_rules(
    nft: Nft,
    service: SocketAddr,
    endpoint: SocketAddr,
    pods: IpNet,
) -> Result<(), FabricError> {
    let families = vec![Family::V4];
    let inside = [service.ip().into(), pods];
    let desired = pieces(service, endpoint, pods, &families)
        .map_err(|error| FabricError { step: "trial".to_owned(), source: io::Error::other(error) })?;
    let mut kernel = Kernel::new(nft, families.clone(), base(&families, &inside, Some(EgressMode::Accepted)));
    kernel.apply(desired.into_iter().enumerate().collect())
}

/// Checks that the kernel accepts IPv6: the base rules are written and removed in one transaction, so that nothing is
/// left.
pub fn try_ipv6(nft: &Nft) -> Result<(), FabricError> {
    let family = Family::V6;
    let mut piece = base(&[family], &[], Some(EgressMode::ConnectFirst));
    let desired = piece.half(family);
    let table = Table { family, name: "podium-trial".to_owned() };
    let mut batch = Batch::new();
    batch.add_table(&table);
    let mut steps = BatchSteps::default();
    steps.between(&table, &FamilyRules::default(), desired);
    batch.append(steps.whole());
    batch.delete_table(&table);
    nft.commit(&batch)
}

fn pieces(
    service: SocketAddr,
    endpoint: SocketAddr,
    pods: IpNet,
    families: &[Family],
) -> Result<Vec<RulesUpdate>, serde_json::Error> {
    let metadata = json!({"name": "trial", "namespace": "trial", "labels": {"app": "trial"}});
    let key = Key::new("trial", "trial");
    let served = Service::decode(
        json!({"metadata": metadata, "spec": {"clusterIP": service.ip(), "clusterIPs": [service.ip()],
        "sessionAffinity": "ClientIP", "ports": [{"port": service.port(), "protocol": "TCP"}]}}),
    )?;
    let slice = EndpointSlice::decode(json!({"metadata": metadata, "addressType": "IPv4",
        "ports": [{"name": "", "port": endpoint.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [endpoint.ip()], "conditions": {"ready": true}}]}))?;
    let slices = [(key.clone(), SharedObject::from_value(slice))].collect_map();
    let joined = ServiceEndpoints { service: Some(SharedObject::from_value(served)), slices };
    let mut all =
        vec![services::rules_of(&key, &joined, &NodesByName::new(), &[IpNet::from(service.ip())]).into()];

    let mut judgement = PolicyRules::new(&[]);
    let namespace = Namespace::decode(json!({"metadata": {"name": "trial"}}))?;
    judgement.index.stage_namespace("trial", Some(&namespace));
    let pod = Pod::decode(json!({"metadata": metadata, "spec": {"containers": []},
        "status": {"podIP": endpoint.ip(), "podIPs": [{"ip": endpoint.ip()}]}}))?;
    judgement.index.stage_pod(&key, Some(&pod));
    let peers_of = |direction: &str| {
        json!([{direction: [{"podSelector": {}}], "ports": [{"port": 1, "endPort": 9}]},
            {direction: [{"ipBlock": {"cidr": pods, "except": [IpNet::from(endpoint.ip())]}}]}])
    };
    let policy = NetworkPolicy::decode(json!({"metadata": metadata, "spec": {"podSelector": {},
        "policyTypes": ["Ingress", "Egress"], "ingress": peers_of("from"), "egress": peers_of("to")}}))?;
    judgement.index.stage_policy(&key, Some(&policy));
    all.extend(judgement.commit(families).into_iter().map(|(_, wish)| wish));
    Ok(all)
}
