//! Built-in images with an unmodified kubectl: the names they stand for, and the contracts of the images behind these
//! names (IMG-2).

use serde_json::json;

use crate::instance::{DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, needs, on_path};

/// Waits until a pod has ended, and returns its log.
fn log_after_end(instance: &Instance, pod: &str) -> (String, String) {
    let phase = wait_for(&format!("the end of {pod}"), || {
        let phase = instance.phase(pod);
        (phase == "Succeeded" || phase == "Failed").then_some(phase)
    });
    (phase, instance.logs(pod))
}

/// IMG-2: another registry's nginx is not Podium's; the error explains that and suggests a fix.
#[test]
fn an_image_of_another_registry_is_never_replaced_by_a_built_in_one_img_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    std::fs::write(home.path("config.yaml"), "registry: {pull: never, builtin: [ghcr.io/mapped/nginx]}\n")
        .unwrap();
    let config = home.path("config.yaml");
    let instance = home.start(&["--ephemeral", "--nodes", "1", "--config", config.to_str().unwrap()]);
    for (name, image) in [
        ("private", "ghcr.io/acme/nginx:1.25"),
        ("python", "registry.example.com/team/python:2.0"),
        ("mapped", "ghcr.io/mapped/nginx:7"),
        ("hub", "docker.io/library/nginx:1.16.0"),
    ] {
        instance.kubectl(&["run", name, &format!("--image={image}")]);
    }
    let waiting = ".status.containerStatuses[0].state.waiting";
    for (name, repository, like) in
        [("private", "ghcr.io/acme/nginx", "nginx"), ("python", "registry.example.com/team/python", "python")]
    {
        wait_for("the failed pull", || {
            let reason = instance.field(name, &format!("{waiting}.reason"));
            ["ErrImagePull", "ImagePullBackOff"].contains(&reason.as_str()).then_some(())
        });
        let message = instance.field(name, &format!("{waiting}.message"));
        let cause = format!("no image of this machine has the name {repository}");
        assert!(message.contains(&cause), "{message}");
        let hint = format!(
            "list {repository} under registry.builtin in the config file to run Podium's own {like} in its place"
        );
        assert!(message.contains(&hint) && message.contains("podium image load FILE"), "{message}");
    }
    instance.until_ready("mapped");
    instance.until_ready("hub");
    assert!(instance.field("private", ".status.containerStatuses[0].imageID").is_empty());
    instance.stop();
}

/// IMG-2: postgres starts as people start it, initialises its data directory, and takes clients with the password.
#[test]
fn postgres_honours_the_contract_of_its_image_img_2() {
    needs!(Kubectl);
    if lacks(Need::Programs, on_path("postgres") && on_path("psql")) {
        return;
    }
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    instance.kubectl(&["run", "pg", "--image=postgres:16", "--env=POSTGRES_PASSWORD=x"]);
    instance.kubectl(&["run", "bare", "--image=postgres:16", "--restart=Never"]);
    let script = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "init"}, "data": {
        "1.sql": "CREATE TABLE notes (text varchar); INSERT INTO notes VALUES ('from the script');",
        "2.sh": "psql -v ON_ERROR_STOP=1 -U \"$POSTGRES_USER\" -d \"$POSTGRES_DB\" -c \"INSERT INTO notes VALUES ('sh')\""}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
        "stringData": {"password": "sesame\n"}});
    let shop = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": {
        "containers": [{"name": "c", "image": "docker.io/library/postgres:17-alpine", "args": ["-c", "max_connections=7"],
            "env": [{"name": "POSTGRES_USER", "value": "owner"}, {"name": "POSTGRES_DB", "value": "shop"},
                {"name": "POSTGRES_PASSWORD_FILE", "value": "/secret/password"},
                {"name": "PGDATA", "value": "/var/lib/postgresql/data/own"}],
            "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"},
                {"name": "init", "mountPath": "/docker-entrypoint-initdb.d"}, {"name": "s", "mountPath": "/secret"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "init", "configMap": {"name": "init"}},
            {"name": "s", "secret": {"secretName": "s"}}]}});
    // A pod may name a user that the machine does not have.
    let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other"}, "spec": {
        "securityContext": {"runAsUser": 4711, "runAsNonRoot": true, "fsGroup": 4711},
        "containers": [{"name": "c", "image": "postgres", "env": [{"name": "POSTGRES_HOST_AUTH_METHOD", "value": "trust"}]}]}});
    let own_mounts = !instance
        .kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.annotations}"])
        .contains(r#""podium.dev/namespaces":"none""#);
    instance.apply_all(&[script, secret, shop]);
    if own_mounts {
        instance.apply_all(&[other]);
    }

    let (phase, log) = log_after_end(&instance, "bare");
    assert_eq!(phase, "Failed");
    assert!(log.contains("set POSTGRES_PASSWORD to a value that is not empty"), "{log}");

    let query = |pod: &str, database: &str, user: &str, query: &str| {
        let words = ["exec", pod, "--", "psql", "-U", user, "-d", database, "-Atc", query];
        wait_for(&format!("an answer of {pod}"), || {
            let output = instance.kubectl_output(&words);
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        })
    };
    for (pod, container) in [("pg", "pg"), ("shop", "c")] {
        wait_for(&format!("the end of the initialization of {pod}"), || {
            instance.logs_of(pod, container)?.contains("ready for start up").then_some(())
        });
    }
    assert_eq!(query("pg", "postgres", "postgres", "select 40 + 2"), "42\n");
    assert_eq!(query("pg", "postgres", "postgres", "show server_encoding"), "UTF8\n");
    assert_eq!(
        query("shop", "shop", "owner", "select string_agg(text, ',') from notes"),
        "from the script,sh\n"
    );
    assert_eq!(query("shop", "shop", "owner", "show max_connections"), "7\n");
    assert_eq!(query("shop", "shop", "owner", "show data_directory"), "/var/lib/postgresql/data/own\n");
    if own_mounts {
        assert_eq!(query("other", "postgres", "postgres", "select 1"), "1\n");
    }

    // A client of another pod needs the password.
    let address = instance.field("shop", ".status.podIP");
    for (name, password) in [("right", "sesame"), ("wrong", "simsim")] {
        let url = format!("postgresql://owner:{password}@{address}/shop");
        let image = "--image=postgres:16";
        instance.kubectl(&["run", name, image, "--restart=Never", "--", "psql", &url, "-Atc", "select 'in'"]);
    }
    assert_eq!(log_after_end(&instance, "right"), ("Succeeded".to_owned(), "in\n".to_owned()));
    // The image trusts connections from 127.0.0.1, which all come from where pods share the machine's network.
    if !address.starts_with("127.") {
        let (phase, log) = log_after_end(&instance, "wrong");
        assert!(phase == "Failed" && log.contains("password authentication failed"), "{log}");
    }

    // The data directory outlives the container.
    query("shop", "shop", "owner", "insert into notes values ('kept')");
    instance.kubectl_output(&[
        "exec",
        "shop",
        "--",
        "sh",
        "-c",
        "kill -INT $(head -1 $PGDATA/postmaster.pid)",
    ]);
    wait_for("the next container", || {
        (instance.field("shop", ".status.containerStatuses[0].restartCount") == "1").then_some(())
    });
    assert_eq!(query("shop", "shop", "owner", "select count(*) from notes"), "3\n");
    instance.stop();
}
