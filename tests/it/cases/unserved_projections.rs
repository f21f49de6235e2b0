//! Case 04: pods with projected trust bundles and certificates, which Podium does not serve.

use crate::instance::{DataDir, wait_for};
use crate::needs::needs;

#[test]
fn a_pod_without_its_trust_bundle_or_certificate_does_not_start_vol_1_api_17() {
    needs!(Kubectl);
    let home = DataDir::new();
    let instance = home.start(&["--ephemeral", "--nodes", "1"]);
    let manifest =
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cases/manifests/04-trust-bundle-pod-certificate.yaml");
    let applied = instance.kubectl_output(&["apply", "-f", manifest]);
    assert!(applied.status.success());
    let warnings = String::from_utf8_lossy(&applied.stderr).into_owned();
    for field in [
        "clusterTrustBundle: Podium does not support trust bundles",
        "podCertificate: Podium issues no pod certificates",
    ] {
        let expected = format!("Warning: spec.volumes[0].projected.sources[0].{field}");
        assert!(warnings.contains(&expected), "{expected}: {warnings}");
    }
    for (pod, why) in [
        ("ctb", "clustertrustbundles.certificates.k8s.io \"nope\" not found"),
        ("pcert", "no certificate for signer \"ex.io/s\""),
    ] {
        let selector = format!("--field-selector=involvedObject.name={pod},reason=FailedMount");
        let message = wait_for("an event", || {
            let messages =
                instance.kubectl(&["get", "events", &selector, "-o", "jsonpath={.items[*].message}"]);
            (!messages.is_empty()).then_some(messages)
        });
        let expected = format!("MountVolume.SetUp failed for volume \"p\" : {why}");
        assert!(message.starts_with(&expected), "{pod}: {message}");
        let phase = instance.phase(pod);
        assert_eq!(phase, "Pending", "{pod}");
    }
}
