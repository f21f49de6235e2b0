//! Garbage collection of pulled and built images (IMG-10): what goes when the disk fills, as a kubelet's image manager decides.
//!
//! Images that a user loaded are never collected: they could not be pulled again.

use std::cell::OnceCell;
use std::time::Duration;

use host::ImageUsers;
use jiff::Timestamp;

use crate::store::{ImageStore, ImageUse, Provenance, RemoveError, StoredImage};

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub capacity: u64,
    /// The free part.
    pub available: u64,
}

/// Returns the bytes that a collection must free, so that no more than the low percentage of the disk is used; `None` if
/// none is due, because no more than the high one is used. A high one of 100 turns collections off.
pub fn excess(space: DiskSpace, high_percent: u8, low_percent: u8) -> Option<u64> {
    let percent_of = |percent: u8| u128::from(space.capacity) * u128::from(percent.min(100)) / 100;
    let used = u128::from(space.capacity.saturating_sub(space.available));
    let is_due = high_percent < 100 && used > percent_of(high_percent);
    let needed = used.saturating_sub(percent_of(low_percent));
    (is_due && needed > 0).then(|| u64::try_from(needed).unwrap_or(u64::MAX))
}

/// The images to remove for this many bytes, those first that were not used for the longest time: `uses` has that order.
/// Fewer bytes are freed if nothing else may go.
pub fn victims(
    uses: &[ImageUse],
    needed: u64,
    now: Timestamp,
    minimum_age: Duration,
    is_used: impl Fn(&StoredImage) -> bool,
) -> Vec<&ImageUse> {
    let mut freed = 0_u64;
    let mut chosen = Vec::new();
    for image in uses {
        if freed >= needed {
            break;
        }
        // A time in the future counts as now.
        let age = now.duration_since(image.last_used).unsigned_abs();
        let age = if image.last_used > now { Duration::ZERO } else { age };
        if image.image.provenance != Provenance::Loaded && age >= minimum_age && !is_used(&image.image) {
            freed = freed.saturating_add(image.own_bytes);
            chosen.push(image);
        }
    }
    chosen
}

/// The result of a collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collection {
    /// The removed images, by their names.
    pub removed: Vec<String>,
    /// The bytes of their layers that no other image has.
    pub freed: u64,
}

/// Removes unused pulled and built images until this many bytes are free, and layers that no image has. `users` reads who uses
/// images: once, when the store is locked for the removal, so that a container that starts meanwhile counts.
pub fn collect(
    store: &ImageStore,
    needed: u64,
    now: Timestamp,
    minimum_age: Duration,
    users: impl Fn() -> ImageUsers,
) -> Result<Collection, RemoveError> {
    let uses = store.usage();
    let chosen = OnceCell::new();
    let choose = || {
        let users = users();
        victims(&uses, needed, now, minimum_age, |image| users.uses(&image.id))
    };
    let removed =
        store.prune(|image| chosen.get_or_init(choose).iter().any(|victim| victim.image.id == image.id))?;
    let is_removed = |victim: &&&ImageUse| removed.iter().any(|image| image.id == victim.image.id);
    let gone: Vec<&&ImageUse> = chosen.get().into_iter().flatten().filter(is_removed).collect();
    let name = |victim: &&&ImageUse| victim.names.first().unwrap_or(&victim.image.id).clone();
    Ok(Collection {
        removed: gone.iter().map(name).collect(),
        freed: gone.iter().map(|victim| victim.own_bytes).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used_at(second: i64, id: &str, own_bytes: u64, provenance: Provenance) -> ImageUse {
        let image = serde_json::from_value(serde_json::json!({"id": id, "manifestDigest": null,
            "platform": "linux/amd64", "sizeBytes": 9, "run": {}}));
        let mut image: StoredImage = image.unwrap();
        image.provenance = provenance;
        ImageUse { image, names: Vec::new(), last_used: Timestamp::from_second(second).unwrap(), own_bytes }
    }

    /// IMG-10: a kubelet's thresholds.
    #[test]
    fn a_collection_is_due_above_the_high_threshold_and_frees_down_to_the_low_one_img_10() {
        for (available, expect) in [(100, None), (15, None), (14, Some(6)), (0, Some(20))] {
            assert_eq!(excess(DiskSpace { capacity: 100, available }, 85, 80), expect, "{available}");
        }
        assert_eq!(excess(DiskSpace { capacity: 100, available: 0 }, 100, 80), None);
        assert_eq!(excess(DiskSpace { capacity: u64::MAX, available: 0 }, 85, 80), Some(u64::MAX / 5));
        assert_eq!(excess(DiskSpace { capacity: 0, available: 0 }, 85, 80), None);
    }

    /// IMG-10: the least recently used go first; used, young and loaded images stay.
    #[test]
    fn images_go_by_their_last_use_until_enough_is_free_img_10() {
        let uses = [
            used_at(10, "loaded", 50, Provenance::Loaded),
            used_at(20, "used", 50, Provenance::Pulled),
            used_at(30, "old", 5, Provenance::Pulled),
            used_at(40, "newer", 5, Provenance::Built),
            used_at(50, "newest", 5, Provenance::Pulled),
            used_at(990, "young", 50, Provenance::Pulled),
        ];
        let now = Timestamp::from_second(1000).unwrap();
        let of = |needed| -> Vec<&str> {
            let age = Duration::from_secs(100);
            let chosen = victims(&uses, needed, now, age, |image| image.id == "used");
            chosen.into_iter().map(|victim| victim.image.id.as_str()).collect()
        };
        assert_eq!(of(0), [""; 0]);
        assert_eq!(of(5), ["old"]);
        assert_eq!(of(6), ["old", "newer"]);
        assert_eq!(of(u64::MAX), ["old", "newer", "newest"]);
    }
}
