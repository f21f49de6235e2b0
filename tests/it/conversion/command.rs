//! `podium apply` of a definition together with its objects, in whatever version they are written.

use serde_json::{Value, json};

use super::{by, converter};
use crate::data_dirs::podium;
use crate::instance::Home;

#[test]
fn a_definition_and_its_objects_are_applied_in_one_run_api_14_cli_4() {
    let (webhook, home) = (converter(), Home::new());
    let instance = home.start(&["--ephemeral", "--nodes", "0"]);
    let manifest = home.path("all.yaml");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.conv.test"}, "spec": by(&webhook, "v1")});
    let object = |port: &str| json!({"apiVersion": "conv.test/v2", "kind": "Site", "metadata": {"name": "a"}, "spec": {"host": "h", "port": port}});
    // The object first: what defines it goes before it all the same.
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
