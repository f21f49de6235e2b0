//! Patches: the result of any patch to any object is bounded in size and depth.

use serde_json::Value;

use apimachinery::patch::{PatchType, apply_patch};
use object::{Kind, Object};

/// Kinds with lists that merge by keys, with sets, with maps, and with none of these.
const KINDS: [Kind; 6] =
    [Kind::Pod, Kind::Deployment, Kind::Service, Kind::Node, Kind::ConfigMap, Kind::ServiceAccount];

/// Input: one byte for patch type and kind, then the object as JSON, a NUL, and the patch as JSON.
pub(super) fn check(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let Some(middle) = rest.iter().position(|byte| *byte == 0) else { return };
    let (current, patch) = (&rest[..middle], &rest[middle + 1..]);
    let Ok(current) = serde_json::from_slice::<Value>(current) else { return };
    let kind = KINDS[usize::from(choice >> 2) % KINDS.len()];
    let patch_type = match choice & 3 {
        0 => PatchType::Json,
        1 => PatchType::Merge,
        _ => PatchType::StrategicMerge,
    };
    let Ok(patched) = apply_patch(kind, patch_type, &current, patch) else { return };
    if patch_type == PatchType::Json {
        // The `copy` operations of a JSON patch may add 3 MiB in total, by an estimate of the text's size.
        assert!(patched.to_string().len() < 16 << 20);
    } else {
        let sum = current.to_string().len() + patch.len();
        // A number such as 1e9 is written with more digits than it was read with.
        assert!(patched.to_string().len() <= sum * 16 + 64, "{patched}");
    }
    if patch_type == PatchType::Merge {
        // RFC 7386: the same patch again changes nothing.
        let again =
            apply_patch(kind, patch_type, &patched, patch).expect("the same patch applies a second time");
        assert_eq!(again, patched);
    }
    let nothing = apply_patch(kind, PatchType::StrategicMerge, &patched, b"{}");
    assert!(!patched.is_object() || nothing.is_ok_and(|same| same == patched));
    let _ = Object::from_value(kind, patched);
}
