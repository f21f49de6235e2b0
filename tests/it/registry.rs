//! Images of a real registry, Debian's docker-registry with Basic authentication: pushed by `podium image push`, pulled by
//! pods with a pull secret, and what happens while the registry is down (IMG-4, IMG-6, IMG-7, IMG-8).

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::images::{Layer, saved};
use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};

/// `podium:secret`, by `htpasswd -B`.
const PASSWORDS: &str = "podium:$2y$05$5ckhajcjieEYWYsVB3WlOOWwopIbCmRK1JHhJdiVuF7WZuR7r9ofO\n";

/// A running registry; it ends with the test.
pub(crate) struct Registry {
    child: Child,
    pub(crate) address: String,
}

impl Registry {
    pub(crate) fn start(home: &DataDir, address: &str) -> Self {
        let (passwords, config) = (home.path("passwords"), home.path("registry.yml"));
        std::fs::write(&passwords, PASSWORDS).unwrap();
        let text = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": home.path("registry")}},
            "http": {"addr": address},
            "auth": {"htpasswd": {"realm": "test", "path": passwords}},
        });
        std::fs::write(&config, text.to_string()).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: command.spawn().unwrap(), address: address.to_owned() };
        wait_for("the registry", || std::net::TcpStream::connect(address).ok());
        registry
    }

    pub(crate) fn stop(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.address.clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// An archive of an image whose command writes this text and sleeps.
pub(crate) fn archive(text: &str) -> Vec<u8> {
    let mut layer = Layer::new();
    for program in ["sh", "sleep"] {
        layer.program(program);
    }
    layer.file("etc/text", text);
    let command = format!("echo {text}; exec sleep 3600");
    saved("anything:1", &layer.finish(), &json!({"Cmd": ["sh", "-c", command], "Env": ["PATH=/bin"]}))
}

/// Pushes an archive as a user does who has logged in with `docker login`.
pub(crate) fn push(home: &DataDir, archive: &[u8], name: &str) {
    let (file, docker) = (home.path("image.tar"), home.path("docker"));
    std::fs::write(&file, archive).unwrap();
    std::fs::create_dir_all(&docker).unwrap();
    let registry = name.split('/').next().unwrap();
    std::fs::write(docker.join("config.json"), docker_config(registry)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["image", "push", file.to_str().unwrap(), name]).env("DOCKER_CONFIG", &docker);
    let output = command.arg("--data-dir").arg(home.path("other")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with(&format!("pushed {name} sha256:")), "{printed}");
}

fn docker_config(registry: &str) -> String {
    json!({"auths": {registry: {"username": "podium", "password": "secret"}}}).to_string()
}

fn apply(home: &DataDir, instance: &Instance, objects: &[Value]) {
    let file = home.path("objects.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    instance.kubectl(&["apply", "-f", file.to_str().unwrap()]);
}

fn pod(name: &str, image: &str, policy: &str, secret: bool) -> Value {
    let secrets = if secret { json!([{"name": "login"}]) } else { json!([]) };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "imagePullSecrets": secrets, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": image, "imagePullPolicy": policy}]}})
}

fn field(instance: &Instance, pod: &str, path: &str) -> String {
    instance.kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={{.status.containerStatuses[0]{path}}}")])
}

fn wait_for_failure(instance: &Instance, pod: &str) -> String {
    wait_for("the failed pull", || {
        let reason = field(instance, pod, ".state.waiting.reason");
        ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str()).then_some(())
    });
    field(instance, pod, ".state.waiting.message")
}

#[test]
fn pods_pull_images_of_a_registry_with_their_secrets_img_4_img_6_img_7_img_8() {
    needs!(Kubectl);
    if lacks(Need::DockerRegistry, on_path("docker-registry")) {
        return;
    }
    let home = DataDir::new();
    let registry = Registry::start(&home, &free_address());
    let image = format!("{}/me/app:1", registry.address);
    push(&home, &archive("first"), &image);
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let node = instance.kubectl(&["get", "nodes", "-o", "json"]);
    if lacks(Need::Namespaces, !node.contains("\"podium.dev/namespaces\": \"none\"")) {
        return instance.stop();
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": docker_config(&registry.address)}});
    apply(&home, &instance, &[secret, pod("denied", &image, "IfNotPresent", false)]);
    let message = wait_for_failure(&instance, "denied");
    assert!(message.contains("authorization failed") && message.contains("imagePullSecrets"), "{message}");

    apply(&home, &instance, &[pod("one", &image, "IfNotPresent", true)]);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/one", "--timeout=60s"]);
    assert_eq!(instance.kubectl(&["logs", "one"]), "first\n");
    let id = field(&instance, "one", ".imageID");
    assert!(id.starts_with(&format!("{}/me/app@sha256:", registry.address)), "{id}");
    let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
    assert!(events.contains(&format!("Successfully pulled image \"{image}\" in ")), "{events}");

    // The tag moves: only `Always` follows it.
    push(&home, &archive("second"), &image);
    apply(
        &home,
        &instance,
        &[pod("same", &image, "IfNotPresent", true), pod("newer", &image, "Always", true)],
    );
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/newer", "--timeout=60s"]);
    assert_eq!(instance.kubectl(&["logs", "newer"]), "second\n");
    let address = registry.stop();

    // Without the registry, what is there still starts.
    apply(
        &home,
        &instance,
        &[pod("offline", &image, "IfNotPresent", true), pod("waits", &image, "Always", true)],
    );
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/offline", "--timeout=60s"]);
    let message = wait_for_failure(&instance, "waits");
    assert!(message.contains("connection refused"), "{message}");
    let _registry = Registry::start(&home, &address);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/waits", "--timeout=90s"]);
    instance.stop();
}
