//! Services as users see them: names that init containers wait for, and an address that responds throughout a rollout.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::needs;

/// The example of the Kubernetes documentation, with names of one pod's own namespace.
const WAITING: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: myapp, labels: {app: myapp}}
spec:
  containers:
  - name: myapp-container
    image: busybox:1.28
    command: ['sh', '-c', 'echo The app is running! && sleep 3600']
  initContainers:
  - name: init-myservice
    image: busybox:1.28
    command: ['sh', '-c', "until nslookup myservice.default.svc.cluster.local; do echo waiting for myservice; sleep 0.2; done"]
  - name: init-mydb
    image: busybox:1.28
    command: ['sh', '-c', "until nslookup mydb; do echo waiting for mydb; sleep 0.2; done"]
"#;

const SERVICES: &str = r"
apiVersion: v1
kind: Service
metadata: {name: myservice}
spec: {ports: [{protocol: TCP, port: 8080, targetPort: 9376}]}
---
apiVersion: v1
kind: Service
metadata: {name: mydb}
spec: {ports: [{protocol: TCP, port: 8080, targetPort: 9377}]}
";

fn output(instance: &Instance, path: &str, arguments: &[&str]) -> String {
    let path = format!("jsonpath={path}");
    let mut all = arguments.to_vec();
    all.extend(["-o", &path]);
    instance.kubectl(&all)
}

#[test]
fn init_containers_wait_for_names_and_run_once_the_services_exist_init_1_net_3() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    instance.apply(WAITING);
    wait_for("the first init container waits", || {
        let log = instance.kubectl_output(&["logs", "myapp", "-c", "init-myservice"]);
        String::from_utf8_lossy(&log.stdout).contains("waiting for myservice").then_some(())
    });
    let listed = instance.kubectl(&["get", "pod", "myapp"]);
    assert!(listed.contains("Init:0/2"), "{listed}");

    instance.apply(SERVICES);
    instance.until_ready("myapp");
    for (container, service) in [("init-myservice", "myservice"), ("init-mydb", "mydb")] {
        let log = instance.logs_of("myapp", container).unwrap();
        let address = output(&instance, "{.spec.clusterIP}", &["get", "service", service]);
        // Podium's own nslookup numbers addresses, the machine's, if it has one, names the server first.
        let found = log.lines().any(|line| {
            line == format!("Address 1: {address} {service}.default.svc.cluster.local")
                || line == format!("Address: {address}")
        });
        assert!(found, "{log}");
    }
    instance.stop();
}

const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: nginx
        image: nginx:1.7.9
        ports: [{name: http, containerPort: 80}]
        readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
        # The server answers until the proxy has learned that the pod is terminating, which a busy machine can delay.
        lifecycle: {preStop: {sleep: {seconds: 3}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080, targetPort: http}]}
";

/// One request on one connection. An error says at which step.
fn get(address: &str) -> Result<String, String> {
    let at = |step| move |error: std::io::Error| format!("{step}: {error}");
    let mut stream = TcpStream::connect(address).map_err(at("connect"))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n").map_err(at("write"))?;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    read.map_err(|error| format!("read: {error}, after {answer:?}"))?;
    if answer.starts_with("HTTP/1.1 200") { Ok(answer) } else { Err(answer) }
}

#[test]
fn no_request_fails_while_the_pods_are_replaced_svc_1_net_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "2"]);
    instance.apply(WEB);
    instance.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    let ip = instance.on_machine(&output(&instance, "{.spec.clusterIP}", &["get", "service", "web"]));
    let address = format!("{ip}:8080");
    wait_for("an answer", || get(&address).ok());

    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (stop, served, address) = (stop.clone(), served.clone(), address.clone());
            std::thread::spawn(move || -> Result<(), String> {
                while !stop.load(Ordering::Relaxed) {
                    get(&address)?;
                    served.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        })
        .collect();
    instance.kubectl(&["set", "image", "deploy/web", "nginx=nginx:1.9.1"]);
    instance.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap().unwrap();
    }
    assert!(served.load(Ordering::Relaxed) > 0);
    assert!(get(&address).unwrap().contains("nginx/1.9.1"));

    instance.kubectl(&["scale", "deploy/web", "--replicas=0"]);
    wait_for("connections are refused", || {
        let error = TcpStream::connect(&address).err()?;
        (error.kind() == std::io::ErrorKind::ConnectionRefused).then_some(())
    });
    instance.stop();
}

/// Prints its own hosts file once the second service, which was created later, is in it.
const ASKING: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: asking}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: busybox
    command: ['sh', '-c', 'until nslookup mydb; do sleep 0.2; done;
      until grep mydb ${PODIUM_HOSTS:-/etc/hosts}; do sleep 0.2; done; echo port $LOW_SERVICE_PORT']
";

const LOW: &str = r"
apiVersion: v1
kind: Service
metadata: {name: low}
spec: {ports: [{port: 80}]}
";

#[test]
fn services_have_names_and_ports_where_low_ports_are_not_to_be_had_net_1_net_3() {
    needs!(Kubectl);
    if std::path::Path::new("/usr/bin/nslookup").exists() {
        // Such a container has the machine's own programs, if there are any, and this one queries port 53.
        return;
    }
    let home = DataDir::new();
    let config = home.path("config.yaml");
    std::fs::write(&config, "unprivilegedPortStart: 1024\n").unwrap();
    let instance = home.start(&[
        "--ephemeral",
        "--nodes",
        "1",
        "--network",
        "loopback",
        "--config",
        config.to_str().unwrap(),
    ]);
    instance.apply(LOW);
    instance.apply(ASKING);
    wait_for("it asks", || {
        let log = instance.kubectl_output(&["logs", "asking"]);
        String::from_utf8_lossy(&log.stdout).contains("Server:").then_some(())
    });
    instance.apply(SERVICES);
    wait_for("it is done", || {
        let phase = output(&instance, "{.status.phase}", &["get", "pod", "asking"]);
        (phase == "Succeeded").then_some(())
    });
    let log = instance.logs("asking");
    let address = output(&instance, "{.spec.clusterIP}", &["get", "service", "mydb"]);
    assert!(log.contains(&format!("{address}\tmydb.default.svc.cluster.local")), "{log}");
    assert!(log.contains("port 8080"), "{log}");
    let dns =
        output(&instance, "{.subsets[0].ports[0].port}", &["-n", "kube-system", "get", "ep", "kube-dns"]);
    assert_eq!(dns, "8053");
    instance.stop();
}
