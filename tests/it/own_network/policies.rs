//! Network policies, as pods experience them.

use super::{Cluster, idle, needs, users, wait_for, web};

/// Only `app: friend` and `app: shut-in` may connect to the servers, to port 80; and `app: shut-in` may only connect to
/// DNS and the servers.
const POLICIES: &str = r"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends-only}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: friend}}}, {podSelector: {matchLabels: {app: shut-in}}}]
    ports: [{port: 80}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: shut-in}
spec:
  podSelector: {matchLabels: {app: shut-in}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: web}}}]
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
    ports: [{port: 53, protocol: UDP}, {port: 53}]
---
";

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 8080, targetPort: 80}]}\n---\n";

/// Returns true if curl gets a response at once, for polls and where it should get none.
fn asks(cluster: &Cluster, pod: &str, url: &str) -> bool {
    asks_within(1, cluster, pod, url)
}

/// Returns true if curl gets a response: 28 is a timeout, as forbidden packets are dropped.
fn asks_within(seconds: u8, cluster: &Cluster, pod: &str, url: &str) -> bool {
    let code = cluster.shell(pod, &format!("curl -s -m {seconds} -o /dev/null -w '%{{exitcode}}' {url}"));
    assert!(["0", "28"].contains(&code.as_str()), "{pod} {url}: {code}");
    code == "0"
}

/// NET-8: ingress, through a service as well; egress; DNS, which looks like pods to policies; probes of the node; a
/// changed label or policy is in force at once.
#[test]
fn policies_are_enforced_by_the_kernel_net_8() {
    needs!(Kubectl);
    for user in users() {
        let cluster = Cluster::start(user, "");
        let labelled = |name: &str, node: &str| {
            idle(name, node)
                .replace(&format!("{{name: {name}}}"), &format!("{{name: {name}, labels: {{app: {name}}}}}"))
        };
        let pods = [
            web("a", "node-1", ""),
            labelled("friend", "node-2"),
            labelled("stranger", "node-1"),
            labelled("shut-in", "node-2"),
        ];
        cluster.apply(&[&pods.concat(), SERVICE, POLICIES].concat());
        for pod in ["a", "friend", "stranger", "shut-in"] {
            cluster.ready(pod);
        }
        let by_address = format!("http://{}/", cluster.ip("a"));
        wait_for("the service", || asks(&cluster, "friend", "http://web:8080/").then_some(()));
        wait_for("the policy", || (!asks(&cluster, "stranger", &by_address)).then_some(()));
        for (pod, url, answered) in [
            ("friend", by_address.as_str(), true),
            ("stranger", "http://web:8080/", false),
            ("shut-in", "http://web:8080/", true),
            ("shut-in", "https://kubernetes/healthz -k", false),
            ("stranger", "https://kubernetes/healthz -k", true),
            ("a", "http://localhost/", true),
            ("a", "http://web:8080/", true),
        ] {
            let seconds = if answered { 10 } else { 1 };
            assert_eq!(asks_within(seconds, &cluster, pod, url), answered, "{pod} {url} as {user:?}");
        }
        cluster.ready("a");
        cluster.instance.kubectl(&["label", "pod", "stranger", "app=friend", "--overwrite"]);
        wait_for("the label", || asks(&cluster, "stranger", &by_address).then_some(()));
        cluster.instance.kubectl(&["label", "pod", "stranger", "app=stranger", "--overwrite"]);
        wait_for("the other label", || (!asks(&cluster, "stranger", &by_address)).then_some(()));
        cluster.instance.kubectl(&["delete", "networkpolicy", "friends-only"]);
        wait_for("no policy", || asks(&cluster, "stranger", &by_address).then_some(()));
        cluster.instance.stop();
    }
}
