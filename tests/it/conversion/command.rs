//! `podium apply` of a definition together with its objects, in any of its versions.

use serde_json::{Value, json};

use super::{converter, sites_converted_by};
use crate::data_dirs::podium;
use crate::instance::DataDir;
use crate::needs::needs;

#[test]
fn a_definition_and_its_objects_are_applied_in_one_run_api_14_cli_4() {
    let (webhook, home) = (converter(), DataDir::new());
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let manifest = home.path("all.yaml");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.conv.test"}, "spec": sites_converted_by(&webhook, "v1")});
    let object = |port: &str| json!({"apiVersion": "conv.test/v2", "kind": "Site", "metadata": {"name": "a"}, "spec": {"host": "h", "port": port}});
    // The object precedes its definition in the file, and the definition is applied first all the same.
    let write = |objects: &[&Value]| {
        let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
        std::fs::write(&manifest, documents.join("\n---\n")).unwrap();
    };
    write(&[&object("1"), &definition]);
    let apply = || podium(&home, &["apply", "-f", manifest.to_str().unwrap()]);
    let (code, stdout, stderr) = apply();
    let created =
        "customresourcedefinition.apiextensions.k8s.io/sites.conv.test created\nsite.conv.test/a created\n";
    assert_eq!((code, stdout.as_str()), (Some(0), created), "{stderr}");
    write(&[&object("2"), &definition]);
    let (code, stdout, stderr) = apply();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("site.conv.test/a configured\n"), "{stdout}");
    write(&[&definition, &object("2")]);
    let (_, stdout, _) = apply();
    assert!(stdout.contains("site.conv.test/a unchanged\n"), "{stdout}");
    instance.stop();
    drop(webhook);
}

/// Kubernetes' old versions are accepted, and the server warns about them: once, for any number of objects.
#[test]
fn server_warnings_are_printed_once_as_by_kubectl_api_12_api_18() {
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let manifest = home.path("old.yaml");
    let job = |name: &str| {
        json!({"apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": name}, "spec": {
            "schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "busybox"}]}}}}}})
        .to_string()
    };
    std::fs::write(&manifest, [job("a"), job("b")].join("\n---\n")).unwrap();
    let warning = "Warning: batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob\n";
    let (code, stdout, stderr) = podium(&home, &["apply", "-f", manifest.to_str().unwrap()]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "cronjob.batch/a created\ncronjob.batch/b created\n"),
        "{stderr}"
    );
    assert_eq!(stderr, warning);
    let (code, stdout, stderr) = podium(&home, &["delete", "-f", manifest.to_str().unwrap()]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "cronjob.batch/b deleted\ncronjob.batch/a deleted\n"),
        "{stderr}"
    );
    assert_eq!(stderr, warning);
    // Failures are reported as usual, beside the warnings.
    std::fs::write(&manifest, job("a").replace("0 0 1 1 *", "never")).unwrap();
    let (code, _, stderr) = podium(&home, &["apply", "-f", manifest.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.starts_with(warning) && stderr.contains("spec.schedule"), "{stderr}");
    instance.stop();
}

/// A name is a name: one that is missing, or has signs of a URL, never stands for all objects of a kind.
#[test]
fn a_deletion_without_a_name_or_with_a_strange_one_deletes_nothing_cli_4_sec_2() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    for name in ["a", "b"] {
        instance.kubectl(&["create", "configmap", name]);
        let fence = json!({"apiVersion": "podium.dev/v1alpha1", "kind": "NodeFence", "metadata": {"name": name},
            "spec": {}});
        instance.apply(&fence.to_string());
    }
    let manifest = home.path("nameless.yaml");
    for (metadata, reason) in [
        (json!({"generateName": "a"}), "metadata.name: required to delete an object"),
        (json!({"name": "?"}), "configmap/? not found"),
        (json!({"name": "a?b"}), "configmap/a?b not found"),
    ] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        std::fs::write(&manifest, map.to_string()).unwrap();
        let (code, stdout, stderr) = podium(&home, &["delete", "-f", manifest.to_str().unwrap()]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{metadata}: {stderr}");
        assert!(stderr.contains(reason), "{metadata}: {stderr}");
    }
    for name in ["?", "a?b", "a#"] {
        let (code, _, stderr) = podium(&home, &["fence", "--release", name]);
        assert_eq!(code, Some(1), "{name}: {stderr}");
    }
    for kind in ["configmaps", "nodefences"] {
        let names = instance.kubectl(&["get", kind, "-o", "jsonpath={.items[*].metadata.name}"]);
        let left = names.split(' ').filter(|name| matches!(*name, "a" | "b")).count();
        assert_eq!(left, 2, "{kind}: {names}");
    }
    instance.stop();
}
