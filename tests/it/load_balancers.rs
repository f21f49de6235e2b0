//! Services of type LoadBalancer, for a program of the machine and one in a pod, in both networks of pods (NET-6).

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

const MANIFEST: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: asker}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: busybox, command: [sleep, '100000']}]
---
apiVersion: v1
kind: Service
metadata: {name: open}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 8090, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: closed}
spec: {type: LoadBalancer, selector: {app: web}, loadBalancerSourceRanges: [203.0.113.0/24], ports: [{port: 8091, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: foreign}
spec: {type: LoadBalancer, selector: {app: web}, loadBalancerClass: example.com/other, ports: [{port: 8092, targetPort: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: choosy}
spec: {type: LoadBalancer, selector: {app: web}, loadBalancerIP: 198.51.100.1, ports: [{port: 8093, targetPort: 80}]}
";

/// Returns the addresses of a service's load balancer; the one for programs of the machine comes first.
fn addresses(instance: &Instance, service: &str) -> Vec<String> {
    let path = "jsonpath={.status.loadBalancer.ingress[*].ip}";
    let output = instance.kubectl(&["get", "service", service, "-o", path]);
    output.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Returns true if a web server answers a program of the machine there.
fn answers(address: &str, port: u16) -> bool {
    let response = || {
        let mut stream = TcpStream::connect(format!("{address}:{port}"))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    response().is_ok_and(|text| text.contains(" 200 OK"))
}

/// NET-6: the load balancer's address is reachable from the machine and from pods, survives a restart and is released;
/// clients outside of the source ranges are refused; a missing address is reported.
#[test]
fn a_load_balancer_has_an_address_that_serves_net_6() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    instance.apply(MANIFEST);
    instance.until_ready("web");
    instance.until_ready("asker");
    let of = |instance: &Instance, service: &str| {
        wait_for("an address", || Some(addresses(instance, service)).filter(|all| !all.is_empty()))
    };
    let (open, closed) = (of(&instance, "open"), of(&instance, "closed"));
    assert!(open.iter().all(|ip| !closed.contains(ip)), "{open:?} {closed:?}");
    wait_for("the machine's program", || answers(&open[0], 8090).then_some(()));
    let fetch = |ip: &str, port: u16| {
        let url = format!("http://{ip}:{port}/");
        let curl =
            ["exec", "asker", "--", "curl", "-s", "-m", "3", "-o", "/dev/null", "-w", "%{http_code}", &url];
        String::from_utf8(instance.kubectl_output(&curl).stdout).unwrap()
    };
    let inside = (open.last().unwrap(), closed.last().unwrap());
    wait_for("the pod's program", || (fetch(inside.0, 8090) == "200").then_some(()));
    assert_eq!(fetch(inside.1, 8091), "000", "a client outside of the ranges is refused");
    assert!(!answers(&closed[0], 8091));

    assert_eq!(addresses(&instance, "foreign"), [""; 0], "another controller's");
    let events = || instance.kubectl(&["events", "--for", "service/choosy"]);
    wait_for("why it has none", || {
        events()
            .contains("failed to ensure load balancer: 198.51.100.1 is not in the address pool")
            .then_some(())
    });
    assert!(instance.kubectl(&["get", "service", "choosy"]).contains("<pending>"));

    instance.stop();
    let instance = home.start(&["--nodes", "1"]);
    assert_eq!(addresses(&instance, "open"), open, "the addresses are unchanged");
    wait_for("the machine's program again", || answers(&open[0], 8090).then_some(()));
    instance.kubectl(&["patch", "service", "open", "-p", r#"{"spec": {"type": "ClusterIP"}}"#]);
    wait_for("it to be given back", || addresses(&instance, "open").is_empty().then_some(()));
    wait_for("the address to stop serving", || (!answers(&open[0], 8090)).then_some(()));
    instance.kubectl(&["patch", "service", "choosy", "-p", r#"{"spec": {"loadBalancerIP": null}}"#]);
    assert_eq!(of(&instance, "choosy"), open, "the first that is free");
    instance.stop();
}
