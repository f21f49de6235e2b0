//! Assigns load balancer addresses (NET-6): a Service of type LoadBalancer gets one of the cluster's pool, as a
//! cloud's controller would do; the network component serves it.
//!
//! The services' statuses are the record of assigned addresses. Two copies of this controller may assign the same
//! one; both services are then synced again, and the younger one gets another.

mod plan;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};

use super::balancer_pool::BalancerPool;
use super::context::Context;
use api::{Api, ApiError, Change, ChangeKind};
use object::{Key, SharedObject};
use plan::{Plan, Tenant, plan};
use reconcile::{ReconcileError, Reconciler, Recorder, WorkQueue, ignore_not_found, preconditions};

/// The interval at which a failed assignment is tried again: an address may have been released.
const RETRY: Duration = Duration::from_secs(30);

/// Starts the controller, where there is a pool.
pub(super) fn start(context: &Context) {
    let Some(pool) = context.settings.balancers.clone() else { return };
    // One worker, because it is the allocator.
    context
        .controller(|queue| Balancers {
            api: context.api.clone(),
            recorder: Recorder::new(&context.api, "service-controller"),
            queue,
            pool,
        })
        .keys_of::<Service>()
        .watches::<Service, _>(Balancers::changed)
        .run(&context.tasks);
}

struct Balancers {
    api: Api,
    recorder: Recorder,
    queue: WorkQueue<Key>,
    pool: BalancerPool,
}

impl Balancers {
    fn changed(&self, change: &Change) {
        let concerns = |service: &Service| plan::is_balancer(service) || self.pool.has_address(service);
        if change.kind != ChangeKind::Deleted && change.object.get::<Service>().is_some_and(concerns) {
            self.queue.add(change.object.key());
        }
    }

    /// Returns the services of each assigned address of the pool.
    fn tenants(&self) -> BTreeMap<Ipv4Addr, Vec<Tenant>> {
        let mut tenants: BTreeMap<Ipv4Addr, Vec<Tenant>> = BTreeMap::new();
        for service in self.api.list_as::<Service>(None) {
            if let Some(address) = self.pool.address_of(&service) {
                tenants.entry(address).or_default().push(Tenant::of(&service));
            }
        }
        tenants
    }

    fn write(&self, service: &SharedObject<Service>, points: &[LoadBalancerIngress]) -> Result<(), ApiError> {
        let written = preconditions::modify_status(&self.api, service, |fresh| {
            let balancer = fresh.status.get_or_insert_default().load_balancer.get_or_insert_default();
            balancer.ingress = Some(points.to_vec()).filter(|points| !points.is_empty());
        });
        ignore_not_found(written)
    }
}

impl Reconciler for Balancers {
    type Key = Key;

    fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Ok(service) = self.api.get_as::<Service>(key) else { return Ok(()) };
        match plan(&service, &self.tenants(), &self.pool) {
            Plan::Leave => Ok(()),
            Plan::Give(address) => {
                self.recorder.normal(service.object(), "EnsuringLoadBalancer", "Ensuring load balancer");
                self.write(&service, &self.pool.points(address))?;
                self.recorder.normal(service.object(), "EnsuredLoadBalancer", "Ensured load balancer");
                // If another service has the same address by now, it must be synced.
                let same = |(other, tenants): (Ipv4Addr, Vec<Tenant>)| {
                    if other == address { tenants } else { Vec::new() }
                };
                for tenant in self.tenants().into_iter().flat_map(same) {
                    self.queue.add(tenant.key);
                }
                Ok(())
            }
            Plan::TakeBack => {
                self.recorder.normal(service.object(), "DeletingLoadBalancer", "Deleting load balancer");
                self.write(&service, &[])?;
                self.recorder.normal(service.object(), "DeletedLoadBalancer", "Deleted load balancer");
                Ok(())
            }
            Plan::Refuse(why) => {
                let message = format!("Error syncing load balancer: failed to ensure load balancer: {why}");
                self.recorder.warning(service.object(), "SyncLoadBalancerFailed", message);
                if self.pool.has_address(&service) {
                    self.write(&service, &[])?;
                }
                Err(ReconcileError::After(RETRY))
            }
        }
    }
}
