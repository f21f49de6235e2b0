//! Random runs with controllers that restart at any point (VOL-2, SAFE-6).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use podium::api::DeleteOptions;
use podium::controllers::Controllers;
use podium::object::{Kind, SharedObject};
use proptest::prelude::*;
use serde_json::json;

use super::super::cluster::key;
use super::{VolumeFixture, claim, pod};

/// A step of a random run.
#[derive(Clone, Copy, Debug)]
enum UserAction {
    Claim(u8),
    Unclaim(u8),
    Use(u8),
    Leave(u8),
    Restart(usize),
    Pass(u8),
}

fn user_action() -> impl Strategy<Value = UserAction> {
    prop_oneof![
        3 => (0..3u8).prop_map(UserAction::Claim),
        2 => (0..3u8).prop_map(UserAction::Unclaim),
        3 => (0..3u8).prop_map(UserAction::Use),
        2 => (0..3u8).prop_map(UserAction::Leave),
        3 => any::<usize>().prop_map(UserAction::Restart),
        2 => (0..20u8).prop_map(UserAction::Pass),
    ]
}

const RESTARTED: [&str; 5] = [
    "persistentvolume-binder", "directory-provisioner", "pvc-protection-controller",
    "pv-protection-controller", "persistentvolume-expander",
];

async fn perform(stage: &VolumeFixture, controllers: &Controllers, deed: UserAction) {
    let class = |n: u8| if n == 0 { "now" } else { "late" };
    let (claim_name, pod_name) = (|n: u8| format!("c{n}"), |n: u8| format!("p{n}"));
    // An object that exists already, or is deleted already, needs no step.
    match deed {
        UserAction::Claim(n) => {
            let value = claim(&claim_name(n), "1Gi", &json!({"storageClassName": class(n)}));
            let _ = stage.api.create_as(serde_json::from_value::<PersistentVolumeClaim>(value).unwrap());
        }
        UserAction::Unclaim(n) => {
            let _ = stage.api.delete(
                Kind::PersistentVolumeClaim,
                &key(&claim_name(n)),
                &DeleteOptions::default(),
            );
        }
        UserAction::Use(n) => {
            let value = pod(&pod_name(n), &claim_name(n));
            let _ = stage.api.create_as(serde_json::from_value::<Pod>(value).unwrap());
        }
        UserAction::Leave(n) => {
            let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
            let _ = stage.api.delete(Kind::Pod, &key(&pod_name(n)), &now);
        }
        UserAction::Restart(n) => {
            let name = RESTARTED[n % RESTARTED.len()];
            controllers.stop_one(name).await;
            // Other tasks run meanwhile.
            tokio::task::yield_now().await;
            controllers.start_one(name);
        }
        UserAction::Pass(millis) => {
            tokio::time::sleep(std::time::Duration::from_millis(u64::from(millis))).await;
        }
    }
}

/// After any sequence: every claim has its volume or waits for a pod, every volume has its claim, every directory its
/// volume.
fn check(stage: &VolumeFixture) -> Result<(), TestCaseError> {
    let claims = stage.api.list_as::<PersistentVolumeClaim>(None);
    let volumes = stage.api.list_as::<PersistentVolume>(None);
    for claim in &claims {
        let described = stage.describe_claim(claim.name());
        let used = stage.get_pod(claim.name()).is_some();
        let late = claim.name() != "c0";
        if claim.metadata.deletion_timestamp.is_some() {
            prop_assert!(used, "{}: {described} is terminating and no pod uses it", claim.name());
        } else if used || !late || described != "Pending" {
            prop_assert_eq!(described, format!("Bound pvc-{} 1Gi", claim.uid()));
        }
    }
    for volume in &volumes {
        let name = volume.spec.as_ref().unwrap().claim_ref.as_ref().unwrap().uid.clone().unwrap();
        prop_assert!(claims.iter().any(|c| c.uid() == name), "{} belongs to no claim", volume.name());
        prop_assert!(stage.directory(volume.name()).is_dir());
    }
    let directories = std::fs::read_dir(stage.data_dir.path().join("volumes")).into_iter().flatten().count();
    prop_assert_eq!(directories, volumes.len());
    Ok(())
}

impl VolumeFixture {
    /// The pod that uses a claim of a random run, on its node.
    fn get_pod(&self, claim: &str) -> Option<SharedObject<Pod>> {
        let pod: SharedObject<Pod> = self.api.get_as(&key(&claim.replace('c', "p"))).ok()?;
        pod.spec.as_ref()?.node_name.as_ref()?;
        Some(pod)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// VOL-2, SAFE-6: controllers that restart at any point bring everything to the same end.
    #[test]
    fn restarts_change_nothing_vol_2(deeds in prop::collection::vec(user_action(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let stage = VolumeFixture::new().await;
            stage.class("now", &json!({}));
            stage.class("late", &json!({"volumeBindingMode": "WaitForFirstConsumer"}));
            for deed in deeds {
                perform(&stage, &stage.controllers, deed).await;
            }
            stage.pass(60).await;
            let outcome = check(&stage);
            stage.stop().await;
            outcome
        })?;
    }
}
