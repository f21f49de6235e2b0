//! `kubectl cluster-info` and its dump: all data for a problem report, in files (API-6, POD-13).

use std::path::Path;

use serde_json::Value;

use super::pods;
use crate::instance::{DataDir, Instance};

/// The files of a dump for each namespace.
const LISTS: [&str; 7] = [
    "daemonsets.json", "deployments.json", "events.json", "pods.json", "replicasets.json",
    "replication-controllers.json", "services.json",
];

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(path: &Path) -> Vec<String> {
    let list = read(path);
    assert!(list["kind"].as_str().is_some_and(|kind| kind.ends_with("List")), "{list}");
    // kubectl requests protobuf, and writes its empty lists as null.
    let items = list["items"].as_array().into_iter().flatten();
    let mut names: Vec<String> =
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_string()).collect();
    names.sort();
    names
}

/// Checks the dump of a cluster with the Deployment `web`.
pub(super) fn dump(instance: &Instance, home: &DataDir) {
    let output = instance.kubectl(&["cluster-info"]);
    for expected in ["control plane", "is running at", "https://127.0.0.1:", "/services/kube-dns:dns/proxy"] {
        assert!(output.contains(expected), "{expected}: {output}");
    }

    let (own, all) = (home.path("dump"), home.path("dump-all"));
    let to = |directory: &Path| format!("--output-directory={}", directory.display());
    let output = instance.kubectl(&["cluster-info", "dump", &to(&own)]);
    assert!(output.contains("Cluster info dumped to"), "{output}");
    instance.kubectl(&["cluster-info", "dump", "--all-namespaces", &to(&all)]);
    assert_eq!(names(&all.join("nodes.json")), ["node-1", "node-2", "node-3"]);
    // Without the flag, the dump has the context's namespace and kube-system; with it, all namespaces.
    let spaces = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
        let mut names: Vec<String> = entries
            .filter(|entry| entry.file_type().unwrap().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(spaces(&own), ["default", "kube-system"]);
    assert_eq!(spaces(&all), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    for directory in [&own, &all] {
        for space in spaces(directory) {
            for list in LISTS {
                names(&directory.join(&space).join(list));
            }
        }
        let default = directory.join("default");
        assert_eq!(names(&default.join("deployments.json")), ["web"]);
        let mut expected: Vec<String> =
            pods(instance).iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_string()).collect();
        expected.sort();
        assert_eq!(names(&default.join("pods.json")), expected);
        // The output of each container: one line of each debugger and web server at least.
        for pod in &expected {
            let log = std::fs::read_to_string(default.join(pod).join("logs.txt")).unwrap();
            assert!(log.contains("==== START logs for container nginx of pod default/"), "{log}");
            assert!(log.contains("==== END logs for container nginx of pod default/"), "{log}");
        }
    }
    // On standard output, the dump is a single stream.
    let stream = instance.kubectl(&["cluster-info", "dump", "-n", "default"]);
    assert!(stream.contains("==== START logs for container nginx of pod default/web-"), "{stream}");
    let lists = stream.matches("List\",").count();
    assert!(lists > LISTS.len(), "{lists}");
}
