//! Network policies in the kernel, many of many pods: real connections between leaves, and the rules that follow an API
//! (NET-8).

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use podium::api::DeleteOptions;
use podium::base::task::Tasks;
use podium::object::{Key, Kind};
use serde_json::{Value, json};

use super::services::Cluster;
use super::traffic::accept_all;
use super::users;
use crate::instance::wait_for;

const POLICIES: usize = 200;
const PODS: usize = 300;

impl Cluster {
    /// A pod at an address, with its status.
    fn pod(&self, name: &str, app: &str, ip: &str) {
        self.create::<Pod>(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"app": app, "name": name}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "web"}]}}));
        let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]});
        self.api
            .modify_status::<Pod>(&Key::new("default", name), |pod| {
                pod.status = serde_json::from_value(status.clone()).unwrap();
                Ok(())
            })
            .unwrap();
    }

    fn relabel(&self, name: &str, app: &str) {
        self.api
            .modify::<Pod>(&Key::new("default", name), |pod| {
                pod.metadata.labels.get_or_insert_default().insert("app".to_owned(), app.to_owned());
                Ok(())
            })
            .unwrap();
    }

    fn policy(&self, name: &str, spec: &Value) {
        let known = self.api.modify::<NetworkPolicy>(&Key::new("default", name), |policy| {
            policy.spec = serde_json::from_value(spec.clone()).unwrap();
            Ok(())
        });
        if known.is_err() {
            let metadata = json!({"name": name, "namespace": "default"});
            self.create::<NetworkPolicy>(json!({"metadata": metadata, "spec": spec}));
        }
    }

    /// A node that the kernel refuses: its own address is in its pods' range, so that ranges overlap.
    fn refused_node(&self) {
        let metadata = json!({"name": "c", "annotations": {"podium.dev/network": "fabric"}});
        self.create::<Node>(json!({"metadata": metadata, "spec": {"podCIDR": "172.20.1.0/24"}}));
        self.api
            .modify_status::<Node>(&Key::new("", "c"), |node| {
                let addresses = json!([{"type": "InternalIP", "address": "172.20.1.3"}]);
                node.status.get_or_insert_default().addresses = serde_json::from_value(addresses).unwrap();
                Ok(())
            })
            .unwrap();
    }
}

/// Allows pods of an app to connect, to any of these ports.
fn from(app: &str, ports: &Value) -> Value {
    json!({"podSelector": {}, "ingress": [
        {"from": [{"podSelector": {"matchLabels": {"app": app}}}], "ports": ports}]})
}

/// NET-8: many policies that each select every pod, beside a policy that the kernel refuses: allowed connections are
/// never refused and forbidden ones never let through, while policies and pods are created, changed and deleted, and
/// while another control plane takes the rules over.
#[tokio::test(flavor = "multi_thread")]
async fn many_policies_of_many_pods_are_enforced_at_every_moment_net_8() {
    for user in users() {
        let cluster = Cluster::start(user, &[1, 2, 16, 17]);
        let listeners = cluster.listeners(&[1, 2]);
        cluster.refused_node();
        for (name, app, ip) in [("server", "web", 1), ("friend", "friend", 16), ("stranger", "stranger", 17)]
        {
            cluster.pod(name, app, &format!("10.244.1.{ip}"));
        }
        for number in 0..PODS {
            let ip = format!("10.244.{}.{}", 2 + number / 250, number % 250 + 1);
            cluster.pod(&format!("p{number}"), &format!("a{}", number % 50), &ip);
        }
        cluster.policy("friends", &from("friend", &json!([{"port": 8080}])));
        for number in 0..POLICIES {
            cluster.policy(
                &format!("n{number}"),
                &from(&format!("a{}", number % 50), &json!([{"port": number + 1}])),
            );
        }
        let to = "10.244.1.1:8080";
        cluster.until_refused("l17", to, ErrorKind::TimedOut);
        assert_eq!(cluster.running.answer("l16", to).err(), None, "as {user:?}");

        let (is_over, counts) = (AtomicBool::new(false), [AtomicUsize::new(0), AtomicUsize::new(0)]);
        let again = Tasks::new();
        std::thread::scope(|scope| {
            for (client, (leaf, expected)) in
                [("l16", None), ("l17", Some(ErrorKind::TimedOut))].into_iter().enumerate()
            {
                let (cluster, is_over, counts, listener) =
                    (&cluster, &is_over, &counts[client], &listeners[0]);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        assert_eq!(
                            cluster.running.first_packet_of(leaf, to).err(),
                            expected,
                            "{leaf} as {user:?}"
                        );
                        // The listener's queue holds only a few unaccepted connections.
                        if client == 0 {
                            accept_all(listener);
                        }
                        counts.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let meanwhile = |what: &str| {
                    let before = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
                    wait_for(what, || {
                        let now = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
                        (now[0] > before[0] + 2 && now[1] > before[1] + 1).then_some(())
                    });
                };
                for number in 0..POLICIES {
                    let ports =
                        json!([{"port": 100, "endPort": 200 + number}, {"port": 53, "protocol": "UDP"}]);
                    cluster.policy(&format!("n{number}"), &from(&format!("a{number}"), &ports));
                    cluster.relabel(&format!("p{number}"), "b");
                }
                meanwhile("policies that change");
                for number in 0..POLICIES / 2 {
                    let block = json!({"ipBlock": {"cidr": "192.0.2.0/24", "except": [format!("192.0.2.{number}/32")]}});
                    let spec = json!({"podSelector": {"matchLabels": {"name": format!("p{number}")}},
                        "policyTypes": ["Egress", "Ingress"], "egress": [{"to": [block]}]});
                    cluster.policy(&format!("o{number}"), &spec);
                    let gone = Key::new("default", format!("n{number}"));
                    cluster.api.delete(Kind::NetworkPolicy, &gone, &DeleteOptions::default()).unwrap();
                }
                meanwhile("policies that come and go");
                let runtime = tokio::runtime::Handle::current();
                tokio::task::block_in_place(|| runtime.block_on(Cluster::stop(&cluster.tasks)));
                let gone = Key::new("default", format!("n{}", POLICIES - 1));
                cluster.api.delete(Kind::NetworkPolicy, &gone, &DeleteOptions::default()).unwrap();
                cluster.follow(&again);
                cluster.service("next", "10.96.0.80", &json!({}));
                cluster.until_refused("l2", "10.96.0.80:80", ErrorKind::ConnectionRefused);
                meanwhile("another control plane");
            }));
            is_over.store(true, Ordering::Relaxed);
            changes.unwrap();
        });
        // Each change is in force.
        cluster.relabel("stranger", "friend");
        wait_for("the label", || cluster.running.refused("l17", to).is_none().then_some(()));
        cluster.relabel("friend", "stranger");
        cluster.until_refused("l16", to, ErrorKind::TimedOut);
        cluster.pod("late", "late", "10.244.1.2");
        cluster.until_refused("l17", "10.244.1.2:8081", ErrorKind::TimedOut);
        // No kubelet exists that would end the pod.
        let at_once = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        cluster.api.delete(Kind::Pod, &Key::new("default", "late"), &at_once).unwrap();
        wait_for("a pod that is gone", || {
            (cluster.running.refused("l17", "10.244.1.2:8081") == Some(ErrorKind::ConnectionRefused))
                .then_some(())
        });
        Cluster::stop(&again).await;
    }
}

/// NET-8: a policy of hundreds of blocks, exceptions and ranges of ports is enforced exactly, and so are others beside
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_policy_is_enforced_net_8() {
    for user in users() {
        let cluster = Cluster::start(user, &[1, 2, 16, 17, 18]);
        let _listeners = cluster.listeners(&[1, 2]);
        cluster.pod("server", "web", "10.244.1.1");
        let except: Vec<String> = (0..200).map(|n| format!("10.{}.{}.0/24", 1 + n / 250, n % 250)).collect();
        let except: Vec<&str> = except.iter().map(String::as_str).chain(["10.244.1.17/32"]).collect();
        let wide = json!([{"ipBlock": {"cidr": "10.0.0.0/8", "except": except}}]);
        let ports: Vec<Value> =
            (0..200).map(|n| json!({"port": 40 * n + 1, "endPort": 40 * n + 20})).collect();
        let many: Vec<Value> = (0..200)
            .map(|n| json!({"ipBlock": {"cidr": format!("192.{}.{}.0/25", n / 250, n % 250)}}))
            .collect();
        let ports = |more: &[Value]| Value::from([&ports[..], more].concat());
        let spec = |more: &[Value]| {
            json!({"podSelector": {"matchLabels": {"app": "web"}},
                "ingress": [{"from": wide, "ports": ports(more)}, {"from": many, "ports": ports(&[])}]})
        };
        cluster.policy("long", &spec(&[]));
        cluster.pod("other", "other", "10.244.1.2");
        cluster.policy(
            "other",
            &json!({"podSelector": {"matchLabels": {"app": "other"}},
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.244.1.18/32"}}]}]}),
        );
        let (server, other) = ("10.244.1.1:8080", "10.244.1.2:8080");
        cluster.until_refused("l16", other, ErrorKind::TimedOut);
        wait_for("the other policy", || cluster.running.refused("l18", other).is_none().then_some(()));
        // 8080 is in none of the ranges.
        cluster.until_refused("l16", server, ErrorKind::TimedOut);
        cluster.policy("long", &spec(&[json!({"port": 8080})]));
        wait_for("the longer policy", || cluster.running.refused("l16", server).is_none().then_some(()));
        assert_eq!(cluster.running.refused("l17", server), Some(ErrorKind::TimedOut), "as {user:?}");
        assert_eq!(cluster.running.refused("l16", other), Some(ErrorKind::TimedOut));
        cluster
            .api
            .delete(Kind::NetworkPolicy, &Key::new("default", "long"), &DeleteOptions::default())
            .unwrap();
        wait_for("its end", || cluster.running.refused("l17", server).is_none().then_some(()));
        Cluster::stop(&cluster.tasks).await;
    }
}
