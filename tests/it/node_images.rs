//! The images of a node through the API: listed, described, explained, pulled and removed, by those who may (IMG-13).

use serde_json::{Value, json};

use crate::images::{Layer, load_archive, saved};
use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};
use crate::registry::{Registry, archive, free_address, push};

const IMAGES: &str = "/api/v1/nodes/node-1/proxy/images";

/// Sends a request; returns whether it succeeded, and what it printed.
fn request(instance: &Instance, arguments: &[&str]) -> (bool, String) {
    let output = instance.kubectl_output(arguments);
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(printed).unwrap())
}

fn get(instance: &Instance, path: &str) -> Value {
    let (found, printed) = request(instance, &["get", "--raw", &format!("{IMAGES}{path}")]);
    assert!(found, "{path}: {printed}");
    serde_json::from_str(&printed).unwrap()
}

fn refused(instance: &Instance, arguments: &[&str]) -> String {
    let (done, printed) = request(instance, arguments);
    assert!(!done, "{arguments:?}: {printed}");
    printed
}

fn pull(home: &DataDir, instance: &Instance, name: &str) -> (bool, String) {
    let body = home.path("empty.json");
    std::fs::write(&body, "{}").unwrap();
    let path = format!("{IMAGES}?name={name}");
    request(instance, &["create", "--raw", &path, "-f", body.to_str().unwrap()])
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list["images"].as_array().unwrap().iter().find(|image| image["names"][0] == name)
}

/// An archive whose names and labels try to control terminals.
fn hostile_archive() -> Vec<u8> {
    let mut layer = Layer::new();
    layer.program("sleep");
    layer.file("etc/text", "x");
    let config = json!({"Entrypoint": ["sleep"], "Cmd": ["3600"], "User": "1234", "WorkingDir": "/srv",
        "Env": ["PATH=/bin"], "Labels": {"escape": "\u{1b}[2J"}, "ExposedPorts": {"80/tcp": {}}});
    saved("shop/app:v1", &layer.finish(), &config)
}

#[test]
fn clients_list_describe_explain_and_remove_images_of_a_node_img_13() {
    needs!(Kubectl);
    let home = DataDir::new();
    load_archive(&home, "shop/app:v1", &hostile_archive());
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let listed = get(&instance, "");
    let image = named(&listed, "shop/app:v1").unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((&image["source"], &image["pods"]), (&json!("loaded"), &json!([])));
    assert!(image["sizeBytes"].as_u64().unwrap() > 1000 && image["lastUsed"].is_string(), "{image}");
    let id = image["id"].as_str().unwrap();

    let details = get(&instance, "/details?name=shop/app:v1");
    assert_eq!(details, get(&instance, &format!("/details?name={id}")), "an id means the image, too");
    for (field, expected) in [
        ("entrypoint", json!(["sleep"])),
        ("cmd", json!(["3600"])),
        ("user", json!("1234")),
        ("workingDir", json!("/srv")),
        ("exposedPorts", json!(["80/tcp"])),
        ("labels", json!({"escape": "\u{1b}[2J"})),
    ] {
        assert_eq!(details[field], expected, "{field}");
    }
    let layer = &details["layers"][0];
    assert!(
        layer["digest"].as_str().unwrap().starts_with("sha256:") && layer["sizeBytes"].is_u64(),
        "{layer}"
    );

    // The same text as on the command line, up to the registry's answer.
    let (_, explained) = request(&instance, &["get", "--raw", &format!("{IMAGES}/explain?name=shop/app:v1")]);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["image", "explain", "--offline", "shop/app:v1"]).arg("--data-dir").arg(home.data_dir());
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        printed.contains("loaded or pulled image   used") && explained.starts_with(&printed),
        "{explained}"
    );

    let path = |query: &str| format!("{IMAGES}{query}");
    for (arguments, expected) in [
        (["get", "--raw", &path("/details?name=nosuch:1")], "images.podium.dev \"nosuch:1\" not found"),
        (["get", "--raw", &path("/details")], "the parameter name is required"),
        (["get", "--raw", &path("/explain?name=UPPER")], "repository name must be lowercase"),
        (["get", "--raw", &path("/nothing")], "could not find the requested resource"),
        (["delete", "--raw", &path("?name=nosuch:1")], "images.podium.dev \"nosuch:1\" not found"),
        (["delete", "--raw", &path("/details?name=x")], "does not allow this method"),
    ] {
        let printed = refused(&instance, &arguments);
        assert!(printed.contains(expected), "{arguments:?}: {printed}");
    }
    let (accepted, printed) = pull(&home, &instance, "nginx:1.91");
    assert!(!accepted && printed.contains("image nginx:1.91 cannot be pulled"), "{printed}");

    let (removed, printed) = request(&instance, &["delete", "--raw", &path("?name=shop/app:v1")]);
    assert!(removed && printed.contains("shop/app:v1") && printed.contains(id), "{printed}");
    assert!(named(&get(&instance, ""), "shop/app:v1").is_none());
    instance.stop();
}

#[test]
fn only_users_with_nodes_proxy_reach_images_img_13() {
    needs!(Kubectl);
    let home = DataDir::new();
    load_archive(&home, "shop/app:v1", &hostile_archive());
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    instance.kubectl(&["create", "clusterrole", "reads", "--verb=get", "--resource=nodes/proxy"]);
    instance.kubectl(&["create", "clusterrolebinding", "reads", "--clusterrole=reads", "--user=reader"]);
    let list = ["get", "--raw", IMAGES];
    let remove = format!("{IMAGES}?name=shop/app:v1");
    let remove = ["delete", "--raw", &remove];
    let body = home.path("empty.json");
    std::fs::write(&body, "{}").unwrap();
    let pull = format!("{IMAGES}?name=shop/app:v2");
    let pull = ["create", "--raw", &pull, "-f", body.to_str().unwrap()];
    for (user, arguments, verb) in [
        ("jane", &list[..], "get"),
        ("jane", &pull[..], "create"),
        ("jane", &remove[..], "delete"),
        ("reader", &pull[..], "create"),
        ("reader", &remove[..], "delete"),
    ] {
        let printed = refused(&instance, &[&["--as", user], arguments].concat());
        let expected = format!("User \"{user}\" cannot {verb} resource \"nodes/proxy\"");
        assert!(printed.contains(&expected), "{arguments:?}: {printed}");
    }
    let (may, printed) = request(&instance, &[&["--as", "reader"], &list[..]].concat());
    assert!(may && printed.contains("shop/app:v1"), "{printed}");
    instance.stop();
}

#[test]
fn clients_pull_images_through_a_node_img_13() {
    needs!(Kubectl);
    if lacks(Need::DockerRegistry, on_path("docker-registry")) {
        return;
    }
    let home = DataDir::new();
    let registry = Registry::start(&home, &free_address());
    let image = format!("{}/me/app:1", registry.address);
    push(&home, &archive("first"), &image);
    // The node's own credentials are those of the user who runs it.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_podium"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--ephemeral", "--nodes", "1", "--data-dir"]);
    command.arg(home.data_dir()).env("DOCKER_CONFIG", home.path("docker"));
    let instance = DataDir::start_command(&mut command, &home.data_dir().join("kubeconfig"));
    let (accepted, printed) = pull(&home, &instance, &image);
    assert!(accepted && printed.contains(&image), "{printed}");
    let listed = wait_for("the pulled image", || {
        let listed = get(&instance, "");
        assert_eq!(listed["pulls"][0]["error"], Value::Null, "{listed}");
        named(&listed, &image).is_some().then_some(listed)
    });
    let pulled = named(&listed, &image).unwrap();
    assert_eq!(pulled["source"], "pulled");
    let digest = pulled["digests"][0].as_str().unwrap();
    assert!(digest.starts_with(&format!("{}/me/app@sha256:", registry.address)), "{digest}");
    wait_for("the end of the pull", || {
        get(&instance, "")["pulls"].as_array().unwrap().is_empty().then_some(())
    });

    // A pod of it keeps it.
    let node = instance.kubectl(&["get", "nodes", "-o", "json"]);
    if !lacks(Need::Namespaces, !node.contains("\"podium.dev/namespaces\": \"none\"")) {
        instance.kubectl(&["run", "user", "--image", &image, "--image-pull-policy=Never"]);
        instance.until_ready("user");
        assert_eq!(named(&get(&instance, ""), &image).unwrap()["pods"], json!(["default/user"]));
        let printed = refused(&instance, &["delete", "--raw", &format!("{IMAGES}?name={image}")]);
        assert!(printed.contains("is in use by container user of pod default/user"), "{printed}");
        instance.kubectl(&["delete", "pod", "user", "--now"]);
    }

    // A registry that is down: one line, which stays in the list.
    let address = registry.stop();
    let (accepted, _) = pull(&home, &instance, &format!("{address}/me/app:2"));
    assert!(accepted);
    let error =
        wait_for("the failed pull", || get(&instance, "")["pulls"][0]["error"].as_str().map(str::to_owned));
    assert!(error.contains("connection refused") && !error.contains('\n'), "{error}");
    instance.stop();
}
