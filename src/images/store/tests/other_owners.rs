//! Layers that were unpacked for other user ids (IMG-12).

use super::*;

/// IMG-12: layers count only for the ids that they were unpacked for; those of a loaded image stay until it is loaded
/// for the present ids, and neither form is mistaken for the other.
#[test]
fn layers_are_of_use_only_with_the_ids_they_were_unpacked_for() {
    let mut fixture = StoreFixture::new();
    let archive = docker(&["shop/app:v1"], &layers(), &json!({}));
    let name = ImageReference::parse("shop/app:v1").unwrap();
    fixture.load(&archive).unwrap();
    let single = std::mem::replace(
        &mut fixture.store,
        ImageStore::with_owners(fixture.data.path(), LayerOwners::of_ids("users 0:1000:1,1:100000:65535")),
    );
    let plain = fixture.listed("layers");
    assert_eq!(fixture.store.find(&name), None);
    assert!(fixture.store.list().is_empty());
    assert_eq!(fixture.store.find_of_other_owners(&name).unwrap().provenance, Provenance::Loaded);
    assert_eq!(fixture.store.names_of_other_owners(), ["shop/app:v1"]);
    fixture.store.prune(|_| false).unwrap();
    assert_eq!(fixture.listed("layers"), plain, "what a user loaded stays");

    let loaded = fixture.load(&archive).unwrap();
    assert!(!loaded[0].was_present);
    let subordinate: Vec<String> =
        fixture.listed("layers").into_iter().filter(|layer| !plain.contains(layer)).collect();
    assert_eq!(subordinate.len(), plain.len());
    assert!(fixture.store.find(&name).is_some() && single.find(&name).is_some());
    assert_eq!(fixture.store.find_of_other_owners(&name), None);
    let others =
        ImageStore::with_owners(fixture.data.path(), LayerOwners::of_ids("users 0:1000:1,1:200000:65535"));
    assert_eq!(others.find(&name), None, "other ids are other owners");

    fixture.store.prune(|_| false).unwrap();
    assert_eq!(fixture.listed("layers"), subordinate);
    assert!(single.find(&name).is_none() && single.find_of_other_owners(&name).is_some());
    fixture.store.remove("shop/app:v1", |_| None).unwrap();
    assert!(fixture.listed("layers").is_empty());
    assert_eq!(single.find_of_other_owners(&name), None);
}

/// IMG-12: a process with a single id can remove no files of others, and leaves such layers for one that can.
#[test]
fn a_process_with_a_single_id_does_not_remove_layers_of_subordinate_ids() {
    let single = LayerOwners::default();
    let subordinate = LayerOwners::of_ids("users 0:1000:1,1:100000:65535");
    let layer = ChainId::over(None, &Digest::of(b"layer"));
    let name = subordinate.directory_name(&layer);
    assert_eq!(owners::chain_in(&name), single.directory_name(&layer));
    assert!(subordinate.may_remove(&name) && single.may_remove(&single.directory_name(&layer)));
    assert_eq!(single.may_remove(&name), base::subordinate_ids::is_machine_root());
}
