//! Bad input and faults: each gives a clear message and the right exit code, and no data is lost (CLI-6, API-1,
//! API-12, SAFE-2).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use rustix::process::Signal;

use crate::instance::{ChildGuard, DataDir, Instance, wait_for};
use crate::needs::{Need, lacks, mounts, needs, own_mounts};

/// The output of a command that ends by itself.
struct CommandOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs podium without a terminal.
fn podium(arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
    run(command.args(arguments).stdin(Stdio::null()))
}

fn run(command: &mut Command) -> CommandOutput {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    CommandOutput { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// A manifest, and the expected error; `FILE` stands for its path.
const INVALID_MANIFESTS: [(&str, &str); 5] = [
    ("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n data: [\n", "FILE:5:2: "),
    (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: busybox\n    \
         comand: [x]\n",
        "FILE:8:5: spec.containers[0].comand: ",
    ),
    (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: three\n  selector: \
         {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: \
         busybox}]}}\n",
        "FILE:5:3: spec.replicas: ",
    ),
    (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  restartPolicy: Sometimes\n  containers: [{name: \
         c, image: busybox}]\n",
        "FILE:5:3: spec.restartPolicy: Unsupported value: \"Sometimes\"",
    ),
    (
        "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: a}\n",
        "FILE:2:1: kind: no kind \"Deploymnt\" in version \"apps/v1\", did you mean Deployment (apps/v1)?",
    ),
];

#[test]
fn a_broken_manifest_names_its_place_and_field_cli_6_api_12() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let (manifest, data_dir) = (home.path("broken.yaml"), home.data_dir());
    let (manifest, data_dir) = (manifest.to_str().unwrap(), data_dir.to_str().unwrap());
    for (text, expected) in INVALID_MANIFESTS {
        std::fs::write(manifest, text).unwrap();
        let expected = expected.replace("FILE", manifest);
        let applied = podium(&["apply", "--data-dir", data_dir, "-f", manifest]);
        assert!(applied.stderr.contains(&expected), "{expected}\nin {}", applied.stderr);
        assert_eq!(applied.code, Some(1));
        // The server's refusals need a running server, which is stopped again.
        let served =
            podium(&["serve", "--ephemeral", "--nodes", "0", "--listen", "127.0.0.1:0", "-f", manifest]);
        assert!(served.stderr.contains(&expected), "{expected}\nin {}", served.stderr);
        assert_eq!((served.code, served.stdout.as_str()), (Some(1), ""));
    }
    instance.stop();
}

#[test]
fn a_start_that_cannot_be_says_why_and_exits_1_cli_2_cli_6_api_1() {
    let home = DataDir::new();
    let first = home.start(&["--nodes", "0"]);
    let (busy, other, config) = (home.data_dir(), home.path("other"), home.path("config.yaml"));
    let [busy, other, config] = [&busy, &other, &config].map(|path| path.to_str().unwrap());
    std::fs::write(config, "timings: {nodeMonitorGracePeroid: 5}\n").unwrap();
    let address = first.ready_line.split_whitespace().nth(1).unwrap().trim_start_matches("https://");
    let pid = std::fs::read_to_string(first.kubeconfig().with_file_name("lock")).unwrap();
    let cases: [(&[&str], String); 10] = [
        (
            &["serve", "--data-dir", busy, "--listen", "127.0.0.1:0"],
            format!("podium with pid {}", pid.trim()),
        ),
        (
            &["serve", "--data-dir", other, "--listen", address],
            format!("the API cannot listen on {address}: Address already in use (os error 98); choose"),
        ),
        (&["serve", "--data-dir", other, "--listen", "0.0.0.0:0"], "use --expose to allow this".into()),
        (
            &["serve", "--data-dir", other, "--disable", "nonsense"],
            "no component \"nonsense\"; the components are scheduler, kubelet, proxy, dns, ".into(),
        ),
        (
            &["serve", "--data-dir", other, "--disable", "podcg"],
            "no component \"podcg\", did you mean podgc?".into(),
        ),
        (
            &["serve", "--data-dir", other, "--config", "/nonexistent.yaml"],
            "/nonexistent.yaml: No such".into(),
        ),
        (
            &["serve", "--data-dir", other, "--config", config],
            format!(
                "{config}:1:11: timings.nodeMonitorGracePeroid: unknown field \"nodeMonitorGracePeroid\", did you \
                 mean nodeMonitorGracePeriod?"
            ),
        ),
        (
            &["serve", "--data-dir", other, "-f", "/nonexistent.yaml"],
            "/nonexistent.yaml: no such file".into(),
        ),
        (&["--data-dir", other], "needs a terminal on stdin and stdout".into()),
        (&["apply", "--data-dir", other, "-f", config], String::new()),
    ];
    for (arguments, expected) in cases {
        let output = podium(arguments);
        assert!(output.stderr.contains(&expected), "{arguments:?}: {}", output.stderr);
        assert_eq!(
            output.stderr.matches("os error").count().min(2),
            usize::from(output.stderr.contains("os error"))
        );
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{arguments:?}");
    }
    for usage in [["serve", "--bogus"], ["nonsense", "x"], ["serve", "--nodes=x"]] {
        assert_eq!(podium(&usage).code, Some(2), "{usage:?}");
    }
    first.stop();
}

#[test]
fn a_busy_default_port_means_another_one_cli_2() {
    needs!(Kubectl);
    // This test holds the port, or a cluster that runs on this machine does.
    let _held = std::net::TcpListener::bind("127.0.0.1:6443");
    let home = DataDir::new();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podium"));
        command.args(["serve", "--nodes", "0", "--disable", "proxy", "--disable", "dns", "--data-dir"]);
        DataDir::start_command(command.arg(home.data_dir()), &home.data_dir().join("kubeconfig"))
    };
    let instance = start();
    assert!(!instance.ready_line.contains(":6443 "), "{}", instance.ready_line);
    instance.kubectl(&["get", "namespace", "default"]);
    let first = instance.ready_line.clone();
    instance.stop();
    // Consoles and other clients that are running find the cluster at the same port again.
    let again = start();
    assert_eq!(again.ready_line, first);
    again.stop();
}

/// A request's method, path, content type and body, and the status it must get.
type Case<'a> = (&'a str, &'a str, &'a str, Vec<u8>, u16);

#[tokio::test]
async fn hostile_requests_get_the_status_that_kubernetes_gives() {
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let text = |text: &str| text.as_bytes().to_vec();
    let one = |name: &str, more: &str| {
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{name}\"{more}}}}}")
    };
    let (json, stale) = ("application/json", format!("{config_maps}/one"));
    let cases: Vec<Case<'_>> = vec![
        ("POST", config_maps, json, one("one", "").into_bytes(), 201),
        ("POST", config_maps, json, one("one", "").into_bytes(), 409),
        ("PUT", &stale, json, one("one", ",\"resourceVersion\":\"1\"").into_bytes(), 409),
        (
            "POST",
            config_maps,
            "application/yaml",
            text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: two}"),
            201,
        ),
        ("POST", config_maps, "application/yaml", text("kind: [\n"), 400),
        (
            "POST",
            config_maps,
            "application/yaml",
            text("kind: ConfigMap\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: twice}"),
            201,
        ),
        ("POST", config_maps, json, vec![b' '; 4 << 20], 413),
        ("POST", config_maps, json, vec![b'['; 100_000], 400),
        ("POST", config_maps, json, b"{\"kind\":\"\xff\xfe\"}".to_vec(), 400),
        ("POST", config_maps, json, Vec::new(), 400),
        ("POST", config_maps, "text/html", one("three", "").into_bytes(), 415),
        ("PATCH", &stale, json, text("{}"), 415),
        ("GET", "/nonsense", "", Vec::new(), 404),
        ("GET", "/api/v1/namespaces/default/configmaps/none", "", Vec::new(), 404),
        ("BREW", config_maps, "", Vec::new(), 405),
        ("POST", "/api/v1/namespaces/default/pods/none/exec", "", Vec::new(), 400),
    ];
    let client = instance.client().await;
    for (method, path, media_type, body, expected) in cases {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", media_type).body(body.into()).unwrap();
        let status = client.send(request).await.unwrap().status();
        assert_eq!(status.as_u16(), expected, "{method} {path} {media_type}");
    }
    instance.stop();
}

/// A GET's status, its Retry-After, and the beginning of its body as JSON: the whole, or a watch's first event.
async fn get_parts(client: &kube::Client, path: &str) -> (u16, Option<String>, serde_json::Value) {
    let request = http::Request::builder().uri(path).body(Vec::new().into()).unwrap();
    let response = client.send(request).await.unwrap();
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_string());
    let status = response.status().as_u16();
    let mut bytes = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = http_body_util::BodyExt::frame(&mut bytes).await {
        if let Ok(data) = frame.unwrap().into_data() {
            text.extend_from_slice(&data);
        }
    }
    (status, retry, serde_json::from_slice(&text).unwrap_or(serde_json::Value::Null))
}

#[tokio::test]
async fn an_expired_or_future_revision_gives_the_errors_of_kubernetes_api_4() {
    let home = DataDir::new();
    home.start(&["--nodes", "0"]).stop();
    // The history before the restart is gone.
    let instance = home.start(&["--nodes", "0"]);
    let client = instance.impatient_client().await;
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let (status, _, event) = get_parts(&client, &format!("{config_maps}?watch=1&resourceVersion=1")).await;
    assert_eq!(
        (status, event["type"].as_str(), event["object"]["code"].as_i64()),
        (200, Some("ERROR"), Some(410))
    );
    assert_eq!(event["object"]["reason"], "Expired");

    let ahead = "resourceVersion=999999999";
    for path in [config_maps.to_string(), format!("{config_maps}/kube-root-ca.crt")] {
        let (status, retry, body) = get_parts(&client, &format!("{path}?{ahead}")).await;
        assert_eq!((status, retry.as_deref()), (504, Some("1")), "{path}");
        let message = body["message"].as_str().unwrap();
        assert!(
            message.starts_with("Timeout: Too large resource version: 999999999, current: "),
            "{message}"
        );
        assert_eq!(
            (body["reason"].as_str(), &body["details"]),
            (
                Some("Timeout"),
                &serde_json::json!({"retryAfterSeconds": 1, "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]})
            )
        );
    }
    // A watch that would start with the state of that revision fails; one that only follows waits for it.
    let first = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let (status, _, event) = get_parts(&client, &format!("{config_maps}?{first}&{ahead}")).await;
    assert_eq!(
        (status, event["type"].as_str(), event["object"]["code"].as_i64()),
        (200, Some("ERROR"), Some(504))
    );
    let (status, _, event) =
        get_parts(&client, &format!("{config_maps}?watch=1&{ahead}&timeoutSeconds=1")).await;
    assert_eq!((status, event), (200, serde_json::Value::Null), "it waits");
    instance.stop();
}

#[test]
fn a_program_that_is_not_there_is_a_start_error_with_its_name() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    instance.kubectl(&["run", "lost", "--image=busybox", "--", "no-such-program"]);
    let path = "jsonpath={.status.containerStatuses[0].lastState.terminated}";
    let last = wait_for("the container to have failed", || {
        let last = instance.kubectl(&["get", "pod", "lost", "-o", path]);
        last.contains("StartError").then_some(last)
    });
    assert!(last.contains("no-such-program") && last.contains("\"exitCode\":128"), "{last}");
    wait_for("the event", || {
        let events = instance.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
        events.contains("Error: exec: \"no-such-program\": executable file not found in $PATH").then_some(())
    });
    instance.stop();
}

#[test]
fn hollow_nodes_alone_become_ready_and_run_pods_node_7() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0", "--hollow-nodes", "5"]);
    instance.kubectl(&["create", "deployment", "web", "--image=nginx:1.7.9", "--replicas=7"]);
    instance.kubectl(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    instance.stop();
}

#[test]
fn a_signal_during_the_start_ends_it_cleanly_cli_5() {
    let home = DataDir::new();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_podium"));
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(home.data_dir());
    let mut child = ChildGuard::spawn(serve.stdin(Stdio::null()).stdout(Stdio::null()));
    // The lock is taken after the signals are.
    wait_for("the data directory", || home.data_dir().join("lock").exists().then_some(()));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), Signal::TERM).unwrap();
    let status = wait_for("the end", || child.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    // No leftover process holds the directory.
    home.start(&[]).stop();
}

/// Writes until the file system is full.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if file.write_all(&vec![b'x'; size]).is_err() {
            size /= 2;
        }
    }
}

/// The results of concurrent writes by many clients.
#[derive(Default)]
struct WriteOutcome {
    acknowledged: Vec<String>,
    refused: Vec<String>,
}

impl WriteOutcome {
    /// Every client creates config maps until it is refused once.
    async fn until_refused(&mut self, api: &kube::Api<ConfigMap>, round: usize) {
        let clients = (0..8).map(|client| async move {
            let mut written = Self::default();
            for n in 0.. {
                let name = format!("c{client}-{round}-{n}");
                let object: ConfigMap =
                    serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": {"a": "b"}})).unwrap();
                match api.create(&kube::api::PostParams::default(), &object).await {
                    Ok(_) => written.acknowledged.push(name),
                    Err(kube::Error::Api(status)) => {
                        assert_eq!(
                            (status.code, status.message.as_str()),
                            (
                                500,
                                "Internal error occurred: the data directory cannot be written: No space left on \
                                 device (os error 28); nothing was changed"
                            )
                        );
                        written.refused.push(name);
                        return written;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            written
        });
        for written in futures::future::join_all(clients).await {
            self.acknowledged.extend(written.acknowledged);
            self.refused.extend(written.refused);
        }
    }

    /// Checks that acknowledged objects exist, and refused ones do not.
    fn check(&self, instance: &Instance) {
        let listed = instance.kubectl(&["get", "configmaps", "-o", "name"]);
        let listed: std::collections::HashSet<&str> =
            listed.lines().filter_map(|line| line.strip_prefix("configmap/")).collect();
        for name in &self.acknowledged {
            assert!(listed.contains(name.as_str()), "{name} was acknowledged");
        }
        for name in &self.refused {
            assert!(!listed.contains(name.as_str()), "{name} was refused");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_loses_none_and_heals_safe_2() {
    needs!(Kubectl);
    if lacks(Need::Mounts, mounts()) {
        return;
    }
    let home = DataDir::new();
    // A small file system in a mount namespace that ends with the process.
    let place = home.path("small");
    std::fs::create_dir(&place).unwrap();
    let script = "mount -t tmpfs -o size=48m small \"$1\" && exec \"$0\" serve --nodes 0 --listen 127.0.0.1:0 \
                  --data-dir \"$1/data\" --kubeconfig \"$2\"";
    let kubeconfig = home.path("kubeconfig");
    let instance = DataDir::start_command(
        Command::new("unshare")
            .args(own_mounts())
            .args(["sh", "-c", script, env!("CARGO_BIN_EXE_podium")])
            .args([&place, &kubeconfig]),
        &kubeconfig,
    );
    let api: kube::Api<ConfigMap> = kube::Api::namespaced(instance.client().await, "default");
    let filler = Path::new("/proc")
        .join(instance.pid().to_string())
        .join("root")
        .join(place.join("filler").strip_prefix("/").unwrap());
    let mut written = WriteOutcome::default();
    for round in 0..3 {
        let create = || instance.kubectl_output(&["create", "configmap", &format!("healed-{round}")]);
        fill(&filler);
        written.until_refused(&api, round).await;
        // Reads go on.
        written.check(&instance);
        std::fs::remove_file(&filler).unwrap();
        wait_for("writes to go on", || create().status.success().then_some(()));
        written.acknowledged.push(format!("healed-{round}"));
        // Refused writes are not executed later, when there is space.
        written.check(&instance);
    }
    instance.stop();
}
