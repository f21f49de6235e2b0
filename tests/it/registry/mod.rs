//! Images of a real registry, Debian's docker-registry: pushed by `podium image push` and pulled by pods, with Basic
//! authentication, tokens and TLS, from mirrors, and what happens while the registry is down (IMG-4, IMG-6, IMG-7, IMG-8).

mod full_disk;
mod token_server;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::images::{Layer, saved};
use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};
use token_server::TokenServer;

/// `podium:secret`, by `htpasswd -B`.
const PASSWORDS: &str = "podium:$2y$05$5ckhajcjieEYWYsVB3WlOOWwopIbCmRK1JHhJdiVuF7WZuR7r9ofO\n";

/// A running registry; it ends with the test.
pub(crate) struct Registry {
    child: Child,
    pub(crate) address: String,
}

impl Registry {
    /// Starts a registry with Basic authentication.
    pub(crate) fn start(home: &DataDir, address: &str) -> Self {
        let passwords = home.path("passwords");
        std::fs::write(&passwords, PASSWORDS).unwrap();
        Self::with_settings(
            home,
            "basic",
            address,
            &json!({}),
            &json!({"htpasswd": {"realm": "test", "path": passwords}}),
        )
    }

    /// Starts a registry with settings of its TLS and of its authentication; its files have this name.
    pub(crate) fn with_settings(
        home: &DataDir,
        name: &str,
        address: &str,
        tls: &Value,
        auth: &Value,
    ) -> Self {
        let config = home.path(&format!("{name}.yml"));
        let mut settings = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": home.path(name)}},
            "http": {"addr": address, "tls": tls},
        });
        if !auth.is_null() {
            settings["auth"] = auth.clone();
        }
        std::fs::write(&config, settings.to_string()).unwrap();
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
    push_with(home, archive, name, &[]);
}

fn push_with(home: &DataDir, archive: &[u8], name: &str, arguments: &[&str]) {
    let (file, docker) = (home.path("image.tar"), home.path("docker"));
    std::fs::write(&file, archive).unwrap();
    std::fs::create_dir_all(&docker).unwrap();
    let registry = name.split('/').next().unwrap();
    std::fs::write(docker.join("config.json"), docker_config(registry)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["image", "push", file.to_str().unwrap(), name]).env("DOCKER_CONFIG", &docker);
    let output = command.args(arguments).arg("--data-dir").arg(home.path("other")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with(&format!("pushed {name} sha256:")), "{printed}");
}

fn docker_config(registry: &str) -> String {
    json!({"auths": {registry: {"username": "podium", "password": "secret"}}}).to_string()
}

fn pod(name: &str, image: &str, policy: &str, secret: bool) -> Value {
    let secrets = if secret { json!([{"name": "login"}]) } else { json!([]) };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "imagePullSecrets": secrets, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": image, "imagePullPolicy": policy}]}})
}

pub(crate) fn field(instance: &Instance, pod: &str, path: &str) -> String {
    instance.field(pod, &format!(".status.containerStatuses[0]{path}"))
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
    instance.apply_all(&[secret, pod("denied", &image, "IfNotPresent", false)]);
    let message = wait_for_failure(&instance, "denied");
    assert!(message.contains("authorization failed") && message.contains("imagePullSecrets"), "{message}");

    instance.apply_all(&[pod("one", &image, "IfNotPresent", true)]);
    instance.until_ready("one");
    assert_eq!(instance.logs("one"), "first\n");
    let id = field(&instance, "one", ".imageID");
    assert!(id.starts_with(&format!("{}/me/app@sha256:", registry.address)), "{id}");
    let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
    assert!(events.contains(&format!("Successfully pulled image \"{image}\" in ")), "{events}");

    // The tag moves: only `Always` follows it.
    push(&home, &archive("second"), &image);
    instance.apply_all(&[pod("same", &image, "IfNotPresent", true), pod("newer", &image, "Always", true)]);
    instance.until_ready("newer");
    assert_eq!(instance.logs("newer"), "second\n");
    let address = registry.stop();

    // Without the registry, what is there still starts.
    instance.apply_all(&[pod("offline", &image, "IfNotPresent", true), pod("waits", &image, "Always", true)]);
    instance.until_ready("offline");
    let message = wait_for_failure(&instance, "waits");
    assert!(message.contains("connection refused"), "{message}");
    let _registry = Registry::start(&home, &address);
    instance.kubectl(&["wait", "--for=condition=Ready", "pod/waits", "--timeout=90s"]);
    instance.stop();
}

/// Certificates of a registry at 127.0.0.1: returns the settings of its TLS, and the path to the authority.
fn certificates(home: &DataDir, name: &str) -> (Value, std::path::PathBuf) {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_path = home.path(&format!("{name}-authority.pem"));
    std::fs::write(&authority_path, authority.self_signed(&authority_key).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::from_params(&authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let (certificate_path, key_path) = (home.path(&format!("{name}.pem")), home.path(&format!("{name}.key")));
    std::fs::write(&certificate_path, certificate).unwrap();
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    (json!({"certificate": certificate_path, "key": key_path}), authority_path)
}

#[test]
fn registries_with_tls_tokens_and_mirrors_serve_pods_img_4_img_6_img_7() {
    needs!(Kubectl);
    if lacks(Need::DockerRegistry, on_path("docker-registry")) {
        return;
    }
    let home = DataDir::new();
    let (_, other_authority) = certificates(&home, "other");
    let (tls, authority) = certificates(&home, "registry");
    let secured = Registry::with_settings(&home, "secured", &free_address(), &tls, &Value::Null);
    let untrusted = Registry::with_settings(&home, "untrusted", &free_address(), &tls, &Value::Null);
    let tokens = TokenServer::start("podium", "secret");
    let auth = tokens.settings(&home.path("tokens.pem"));
    let guarded = Registry::with_settings(&home, "guarded", &free_address(), &json!({}), &auth);
    let mirror = Registry::with_settings(&home, "mirror", &free_address(), &json!({}), &Value::Null);
    let config = home.path("config.yaml");
    let dead_mirror = free_address();
    let settings = json!({"registry": {"hosts": {
        (&secured.address): {"ca": authority},
        (&untrusted.address): {"ca": other_authority},
        "docker.io": {"mirrors": [format!("http://{dead_mirror}"), format!("http://{}", mirror.address)]},
    }}});
    std::fs::write(&config, settings.to_string()).unwrap();
    let with_config = ["--config", config.to_str().unwrap()];
    let name = |registry: &Registry, name: &str| format!("{}/{name}", registry.address);
    push_with(&home, &archive("over-tls"), &name(&secured, "app:1"), &with_config);
    push(&home, &archive("with-a-token"), &name(&guarded, "private/app:1"));
    push(&home, &archive("without-a-user"), &name(&guarded, "public/app:1"));
    push(&home, &archive("from-the-mirror"), &name(&mirror, "someone/app:1"));

    let instance = home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()]);
    let node = instance.kubectl(&["get", "nodes", "-o", "json"]);
    if lacks(Need::Namespaces, !node.contains("\"podium.dev/namespaces\": \"none\"")) {
        return instance.stop();
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": docker_config(&guarded.address)}});
    let pods = [
        ("over-tls", name(&secured, "app:1"), false),
        ("with-a-token", name(&guarded, "private/app:1"), true),
        ("without-a-user", name(&guarded, "public/app:1"), false),
        ("from-the-mirror", "someone/app:1".to_owned(), false),
    ];
    let mut objects: Vec<Value> =
        pods.iter().map(|(pod_name, image, secret)| pod(pod_name, image, "Always", *secret)).collect();
    objects.extend([
        secret,
        pod("unknown-authority", &name(&untrusted, "app:1"), "Always", false),
        pod("denied", &name(&guarded, "private/app:1"), "Always", false),
    ]);
    instance.apply_all(&objects);
    for (name, ..) in &pods {
        instance.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=90s"]);
        assert_eq!(instance.logs(name), format!("{name}\n"));
    }
    let id = field(&instance, "from-the-mirror", ".imageID");
    assert!(id.starts_with("docker.io/someone/app@sha256:"), "the image's own name, not the mirror's: {id}");
    let message = wait_for_failure(&instance, "unknown-authority");
    assert!(message.contains("certificate"), "{message}");
    let message = wait_for_failure(&instance, "denied");
    assert!(message.contains("authorization failed"), "{message}");
    let scopes = tokens.scopes();
    // The registry names the actions in any order.
    for one_of in [
        &["repository:private/app:pull,push", "repository:private/app:push,pull"][..],
        &["repository:private/app:pull"],
        &["repository:public/app:pull"],
    ] {
        assert!(
            scopes.iter().any(|given| one_of.contains(&given.as_str())),
            "none of {one_of:?} is in {scopes:?}"
        );
    }
    instance.stop();
}
