//! Most users are not root: the tour works for them too, ports below 1024 included (NET-1, NET-4, POD-5, POD-16).

use std::process::Command;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs};

/// A web server with probes and a hook that use port 80 by number and by name.
const WEB: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: nginx
    image: nginx:1.7.9
    ports: [{name: http, containerPort: 80}]
    startupProbe: {tcpSocket: {port: 80}, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
    lifecycle: {preStop: {httpGet: {path: /, port: 80}}}
";

/// In the loopback network, unlike in the fabric, only root may bind low ports.
const ON_LOOPBACK: [&str; 5] = ["--ephemeral", "--nodes", "1", "--network", "loopback"];

/// The first line of the response at a pod's port.
fn answer(instance: &Instance, pod: &str, port: u16) -> Option<String> {
    use std::io::{Read, Write};
    let ip = instance.on_machine(&instance.field(pod, ".status.podIP"));
    let mut stream = std::net::TcpStream::connect((ip.as_str(), port)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.lines().next().map(ToString::to_string)
}

/// Applies the pod and checks all its aspects.
fn check_web(instance: &Instance, port: u16) {
    instance.apply(WEB);
    instance.until_ready("web");
    wait_for("an answer", || (answer(instance, "web", port)? == "HTTP/1.0 200 OK").then_some(()));
    let declared = "jsonpath={.spec.containers[0].ports[0].containerPort}";
    assert_eq!(
        instance.kubectl(&["get", "pod", "web", "-o", declared]),
        "80",
        "objects keep what was declared"
    );
    wait_for("the event", || {
        let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
        (events.contains("Only root can use port 80") == (port != 80)).then_some(())
    });
    instance.kubectl(&["delete", "pod", "web"]);
    wait_for("the hook to have asked where the server is", || {
        let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        assert!(!events.contains("FailedPreStopHook"), "{events}");
        events.contains("Killing").then_some(())
    });
}

#[test]
fn a_low_port_of_a_pod_is_served_8000_higher_for_an_ordinary_user_net_1_pod_5() {
    needs!(Kubectl);
    let home = DataDir::new();
    let config = home.path("config.yaml");
    std::fs::write(&config, "unprivilegedPortStart: 1024\n").unwrap();
    let instance = home.start(&[&ON_LOOPBACK[..], &["--config", config.to_str().unwrap()]].concat());
    let path = "jsonpath={.metadata.annotations.podium\\.dev/unprivileged-port-start}";
    assert_eq!(instance.kubectl(&["get", "node", "node-1", "-o", path]), "1024");
    check_web(&instance, 8080);
    instance.stop();
}

/// `namespaces` of the config simulates both kinds of machines: those that let every user create user namespaces, and
/// others.
#[test]
fn the_tour_works_as_an_ordinary_user_net_4() {
    needs!(Kubectl);
    // Without root, all other tests already run as an ordinary user.
    needs!(Root);
    for namespaces in [true, false] {
        let home = DataDir::for_everyone();
        let config = home.path("config.yaml");
        std::fs::write(&config, format!("namespaces: {namespaces}\n")).unwrap();
        let (kubeconfig, manifests) = (home.path("kubeconfig"), home.path("manifests"));
        std::fs::create_dir(&manifests).unwrap();
        for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sample-manifests")).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), manifests.join(file.file_name())).unwrap();
            }
        }
        let instance = DataDir::start_command(
            Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(home.program())
                .args(["serve", "--nodes", "2", "--listen", "127.0.0.1:0", "--data-dir"])
                .arg(home.data_dir())
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .arg("--config")
                .arg(&config)
                .arg("-f")
                .arg(&manifests)
                .env("HOME", home.path("")),
            &kubeconfig,
        );
        let isolation = "jsonpath={.items[0].metadata.annotations.podium\\.dev/isolation}";
        let isolation = instance.kubectl(&["get", "nodes", "-o", isolation]);
        // A machine may forbid user namespaces; the tour must work there too.
        assert!(isolation == "processes" || (namespaces && isolation == "user-namespace"), "{isolation}");
        if namespaces {
            lacks(Need::UserNamespaces, isolation == "user-namespace");
        }
        instance.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
        instance.kubectl(&["set", "image", "deploy/web", "nginx=nginx:1.9.1"]);
        instance.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
        wait_for("the migration to have used its volumes", || {
            let phase = instance.phase("migration");
            (phase == "Succeeded").then_some(())
        });
        assert_eq!(instance.kubectl(&["exec", "deploy/web", "--", "id", "-u"]).trim(), "65534");
        instance.kubectl(&["drain", "node-1", "--force", "--delete-emptydir-data", "--timeout=60s"]);
        instance.stop();
    }
}

#[test]
fn a_container_of_another_user_may_bind_port_80_where_the_node_may_pod_16() {
    needs!(Kubectl);
    needs!(Root);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let user = r#"{"spec": {"securityContext": {"runAsUser": 65534, "runAsGroup": 65534}}}"#;
    instance.kubectl(&["run", "other", "--image=nginx:1.9.1", "--port=80", "--overrides", user]);
    instance.until_ready("other");
    wait_for("an answer", || answer(&instance, "other", 80).filter(|line| line == "HTTP/1.0 200 OK"));
    assert_eq!(instance.kubectl(&["exec", "other", "--", "id", "-u"]).trim(), "65534");
    instance.stop();
}

/// A mount point that does not exist yet gets a layer over its directory, which must not hide volumes mounted in it.
#[test]
fn an_ordinary_users_volumes_are_all_seen_where_one_needs_a_new_mount_point_vol_1() {
    needs!(Kubectl);
    needs!(Root);
    let home = DataDir::for_everyone();
    let kubeconfig = home.path("kubeconfig");
    let instance = DataDir::start_command(
        Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(home.program())
            .args(["serve", "--ephemeral", "--nodes", "1", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(home.data_dir())
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .env("HOME", home.path("")),
        &kubeconfig,
    );
    let isolation = "jsonpath={.items[0].metadata.annotations.podium\\.dev/isolation}";
    let isolation = instance.kubectl(&["get", "nodes", "-o", isolation]);
    if lacks(Need::UserNamespaces, isolation == "user-namespace") {
        return instance.stop();
    }
    let manifest = r"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: busybox
    command: [sh, -c, 'touch /usr/share/doc/own /usr/share/podium-new/own && ls /usr/share/doc']
    volumeMounts: [{name: a, mountPath: /usr/share/doc}, {name: b, mountPath: /usr/share/podium-new}]
  volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {}}]
";
    instance.apply(manifest);
    let phase = wait_for("the end of the pod", || {
        let phase = instance.phase("p");
        (phase == "Succeeded" || phase == "Failed").then_some(phase)
    });
    let log = instance.logs("p");
    assert_eq!((phase.as_str(), log.as_str()), ("Succeeded", "own\n"));
    instance.stop();
}
