//! The service proxy and cluster DNS in this process: an API, their tasks and real sockets on loopback.

mod dns;
mod host_ports;
mod proxy;

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use podium::api::{Api, ApiConfig};
use podium::base::clock::Clock;
use podium::base::task::Tasks;
use podium::object::{Key, Object, SharedObject, TypedKind};
use podium::reconcile::Caches;
use podium::store::Store;
use serde_json::{Value, json};

/// An API for services with addresses that no other test uses.
struct Net {
    api: Api,
    caches: Caches,
    tasks: Tasks,
    services: Ipv4Net,
}

/// The next address: beyond the range of clusters (127.16 to 127.127), separate for each process and each test.
static NEXT: AtomicU8 = AtomicU8::new(0);

impl Net {
    fn new() -> Self {
        let process = std::process::id() % 60;
        let test = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(test < 32, "no range is left for another test");
        let base = Ipv4Addr::new(127, 128 + 2 * process as u8 + test / 16, 16 * (test % 16), 0);
        let services = Ipv4Net::new_assert(base, 21);
        let config = ApiConfig { service_range: services, ..ApiConfig::default() };
        let api = Api::new(Store::ephemeral(), Clock::machine(), config);
        let net_tasks = Tasks::new();
        let caches = Caches::new(&api, &net_tasks);
        let net = Self { api, caches, tasks: net_tasks, services };
        net.create::<Namespace>(json!({"metadata": {"name": "default"}}));
        net
    }

    /// An address of the test's own that is no service's.
    fn backend(&self, host: u8) -> Ipv4Addr {
        let [a, b, c, _] = self.services.addr().octets();
        Ipv4Addr::new(a, b + 1, c, host)
    }

    fn create<T: TypedKind>(&self, manifest: Value) -> SharedObject<T> {
        let object = Object::from_value(T::kind(), manifest).unwrap();
        SharedObject::from_object(&self.api.create(object, &podium::api::WriteOptions::default()).unwrap())
            .unwrap()
    }

    /// Creates a service and returns its address.
    fn service(&self, name: &str, spec: &Value) -> Ipv4Addr {
        let manifest = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
        let service: SharedObject<Service> = self.create(manifest);
        let ip = service.spec.as_ref().unwrap().cluster_ip.clone().unwrap_or_default();
        ip.parse().unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Sets the endpoints of a service.
    fn endpoints(&self, service: &str, ports: &Value, endpoints: &Value) {
        let slice = |endpoints: &Value| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": {"name": service, "namespace": "default",
                    "labels": {"kubernetes.io/service-name": service}},
                "addressType": "IPv4", "ports": ports, "endpoints": endpoints}))
            .unwrap()
        };
        let desired = slice(endpoints);
        let changed = self.api.modify::<EndpointSlice>(&Key::new("default", service), |current| {
            current.endpoints.clone_from(&desired.endpoints);
            Ok(())
        });
        if changed.is_err() {
            self.api.create_as(desired).unwrap();
        }
    }
}

/// Fails a test that hangs; no test measures time by it.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let in_time = tokio::time::timeout(Duration::from_mins(1), future).await;
    in_time.unwrap_or_else(|_| panic!("{what}: did not happen"))
}

/// Polls until there is a result.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    soon(what, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
