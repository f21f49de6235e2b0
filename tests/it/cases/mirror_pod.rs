//! Case 06: a client creates a mirror pod that has a service account.

use crate::instance::DataDir;
use crate::needs::needs;

const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/06-mirror-pod-service-account.yaml");

/// The API refuses it with 403, and nothing is created.
#[test]
fn a_mirror_pod_with_a_service_account_is_forbidden_through_kubectl_sa_1() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--nodes", "1"]);
    let refused = instance.kubectl_output(&["create", "-f", MANIFEST]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{stderr}");
    assert!(stderr.contains("Error from server (Forbidden)"), "{stderr}");
    assert!(
        stderr.contains("pods \"mir\" is forbidden: a mirror pod may not reference service accounts"),
        "{stderr}"
    );
    let pods = instance.kubectl(&["get", "pods", "-o", "name"]);
    assert_eq!(pods, "");
    instance.stop();
}
