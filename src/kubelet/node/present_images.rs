//! The images that a node has, and their report in its Node object (`status.images`, which the scheduler's
//! ImageLocality reads).
//!
//! This file handles only names and sizes; the catalogue resolves images.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ContainerImage;

use base::sort::SliceOrder;
use images::{Image, ImageReference};

/// A kubelet's `nodeStatusMaxImages`.
const MAX_IMAGES: usize = 50;
/// A kubelet's `MaxNamesPerImageInNodeStatus`.
const MAX_NAMES: usize = 5;

/// The catalogue's images that containers of one node were created from.
#[derive(Debug, Default)]
pub(crate) struct PresentImages {
    /// The images by their short name, with tag or digest.
    used: BTreeMap<String, Image>,
}

impl PresentImages {
    /// Adds an image that the node has.
    pub(crate) fn add(&mut self, reference: &str, image: Image) {
        self.used.insert(short(reference), image);
    }

    /// Returns the images with their names.
    pub(crate) fn used(&self) -> Vec<(String, Image)> {
        self.used.iter().map(|(name, image)| (name.clone(), image.clone())).collect()
    }

    /// Returns true if the node has the image.
    pub(crate) fn has(&self, reference: &str) -> bool {
        self.used.contains_key(&short(reference))
    }

    /// Removes an image that the node no longer has.
    pub(crate) fn forget(&mut self, reference: &str) {
        self.used.remove(&short(reference));
    }

    /// Returns `status.images`: these images and the `loaded` ones, largest first, at most as many as a kubelet
    /// reports.
    pub(crate) fn status(
        &self,
        loaded: impl IntoIterator<Item = (Vec<String>, Image)>,
    ) -> Vec<ContainerImage> {
        let mut images: BTreeMap<String, (i64, Vec<String>)> = BTreeMap::new();
        let used = self.used.iter().map(|(name, image)| (vec![name.clone()], image.clone()));
        for (names, image) in used.chain(loaded) {
            let size = i64::try_from(image.size_bytes).unwrap_or(i64::MAX);
            let (known_size, known) = images.entry(image.image_id.clone()).or_default();
            *known_size = size.max(*known_size);
            known.extend(names);
        }
        let mut images: Vec<ContainerImage> = images
            .into_iter()
            .map(|(id, (size, tags))| {
                let (digests, tags): (Vec<_>, Vec<_>) = tags.into_iter().partition(|name| name.contains('@'));
                let mut names = digests;
                names.extend(tags.iter().filter_map(|tag| digest_name(tag, &id, &names)).collect::<Vec<_>>());
                names.extend(tags);
                let mut seen = std::collections::HashSet::new();
                names.retain(|name| seen.insert(name.clone()));
                names.truncate(MAX_NAMES);
                ContainerImage { names: Some(names), size_bytes: Some(size) }
            })
            .collect();
        images.order_by_key(|image| std::cmp::Reverse(image.size_bytes));
        images.truncate(MAX_IMAGES);
        images
    }
}

/// `nginx@sha256:…` of `nginx:1.25`; `None` if a digest of the repository is known.
fn digest_name(tag: &str, id: &str, digests: &[String]) -> Option<String> {
    let name = ImageReference::parse(tag).map_or_else(|_| tag.to_owned(), |parsed| parsed.name());
    let is_known = digests.iter().any(|known| known.split_once('@').is_some_and(|(known, _)| known == name));
    (!is_known).then(|| format!("{name}@{id}"))
}

/// `nginx:latest` of `docker.io/library/nginx`.
fn short(reference: &str) -> String {
    ImageReference::parse(reference).map_or_else(|_| reference.to_owned(), |parsed| parsed.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size_bytes: u64) -> Image {
        Image { image_id: format!("sha256:{id}"), size_bytes }
    }

    /// SCH-4: the Node object lists the largest images first, with one entry for each image.
    #[test]
    fn a_node_lists_its_images_sch_4() {
        let mut present = PresentImages::default();
        present.add("nginx", image("aa", 10));
        present.add("docker.io/library/nginx:1.25", image("aa", 10));
        present.add("shop:v1", image("bb", 30));
        present.add("old:v1", image("dd", 1));
        present.forget("docker.io/library/old:v1");
        let loaded = (vec!["me/app:1".to_owned()], image("cc", 20));
        let pulled = (vec!["x.io/y:2".to_owned(), "x.io/y@sha256:99".to_owned()], image("ee", 15));
        let shown: Vec<(Vec<String>, i64)> = present
            .status([loaded, pulled])
            .into_iter()
            .map(|image| (image.names.unwrap(), image.size_bytes.unwrap()))
            .collect();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let expect = [
            (names(&["shop@sha256:bb", "shop:v1"]), 30),
            (names(&["me/app@sha256:cc", "me/app:1"]), 20),
            (names(&["x.io/y@sha256:99", "x.io/y:2"]), 15),
            (names(&["nginx@sha256:aa", "nginx:1.25", "nginx:latest"]), 10),
        ];
        assert_eq!(shown, expect);
    }

    #[test]
    fn the_list_is_bounded_as_a_kubelets() {
        let mut present = PresentImages::default();
        for number in 0..60 {
            present.add(&format!("a:{number}"), image(&number.to_string(), number));
            present.add(&format!("many:{number}"), image("one", 1000));
        }
        let shown = present.status([]);
        assert_eq!(shown.len(), 50);
        assert_eq!(shown[0].names.as_ref().unwrap().len(), 5);
        assert_eq!(shown[1].size_bytes, Some(59));
    }
}
