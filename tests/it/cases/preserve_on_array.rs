//! Case 08: `x-kubernetes-preserve-unknown-fields` on a list.

use serde_json::{Value, json};

use crate::instance::DataDir;
use crate::needs::needs;

const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/08-preserve-on-array.yaml");

/// Strict validation takes the object, and nothing in its list is lost.
#[test]
fn a_list_that_preserves_unknown_fields_keeps_its_items_through_kubectl_api_7() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "0"]);
    // kubectl does not know the definition's kind yet and reports that of the second document.
    instance.kubectl_output(&["apply", "-f", MANIFEST]);
    instance.kubectl(&["wait", "--for=condition=Established", "crd/widgets.example.com"]);
    for mode in ["strict", "warn", "ignore"] {
        instance.kubectl(&["apply", &format!("--validate={mode}"), "-f", MANIFEST]);
        let shown = instance.kubectl(&["get", "widget", "w", "-o", "jsonpath={.spec.parts}"]);
        let parts: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(parts, json!([{"left.id": "main"}]), "{mode}");
        instance.kubectl(&["delete", "widget", "w"]);
    }
}
