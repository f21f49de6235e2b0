//! The images of nodes as rows: from Podium's kubelets, which know all about them, or from the Node and Pod objects of
//! any cluster.

use std::cmp::Ordering;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};

use crate::rows::cell::natural;
use object::node_image::{NodeImage, NodeImagePull, NodeImageSource, NodeImages};
use object::pod::PullProgress;

/// An image of a node, or a pull of one.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRow {
    /// The node.
    pub node: String,
    /// The names, best first.
    pub names: Vec<String>,
    /// The identity, or a digest that stands for it; empty if none is known.
    pub id: String,
    /// The size on disk; `None` for a pull.
    pub size_bytes: Option<u64>,
    /// The pods that use it: `NAMESPACE/NAME`.
    pub pods: Vec<String>,
    /// The time of its last use, if it is known.
    pub last_used: Option<Timestamp>,
    /// The way it came to the node.
    pub source: NodeImageSource,
    /// The image is being pulled, or its pull failed.
    pub pull: Option<PullRow>,
    /// The node's kubelet describes, explains, pulls and removes its images.
    pub is_managed: bool,
}

/// The state of a pull.
#[derive(Clone, Debug, PartialEq)]
pub enum PullRow {
    /// In progress.
    Running(PullProgress),
    /// It failed, for this reason.
    Failed(String),
}

/// A column by which images are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageColumn {
    /// The node.
    Node,
    /// The name.
    #[default]
    Name,
    /// The identity.
    Id,
    /// The size.
    Size,
    /// The number of pods that use it.
    Pods,
    /// The time of the last use.
    LastUsed,
    /// The way it came to the node.
    Source,
}

impl ImageColumn {
    /// All columns, in their order.
    pub const ALL: [Self; 7] =
        [Self::Node, Self::Name, Self::Id, Self::Size, Self::Pods, Self::LastUsed, Self::Source];

    /// Returns the heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Node => "NODE",
            Self::Name => "IMAGE",
            Self::Id => "ID",
            Self::Size => "SIZE",
            Self::Pods => "PODS",
            Self::LastUsed => "USED",
            Self::Source => "SOURCE",
        }
    }
}

impl ImageRow {
    /// Returns the name for the row: the first one, or the identity.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.id)
    }

    /// Returns the identity in short: `0123456789ab`.
    pub fn short_id(&self) -> &str {
        let hex = self.id.split_once(':').map_or(self.id.as_str(), |(_, hex)| hex);
        hex.char_indices().nth(12).map_or(hex, |(end, _)| &hex[..end])
    }

    /// Returns whether a text of the row matches.
    pub fn matches(&self, is_match: impl Fn(&str) -> bool) -> bool {
        let texts = self.names.iter().chain(&self.pods).chain([&self.node, &self.id]);
        texts.map(String::as_str).any(&is_match) || is_match(self.source.word())
    }

    /// Compares two rows by a column; pulls come first, and equal rows are ordered by name and node.
    pub fn order(&self, other: &Self, column: ImageColumn, is_descending: bool) -> Ordering {
        let by = match column {
            ImageColumn::Node => natural(&self.node, &other.node),
            ImageColumn::Name => natural(self.name(), other.name()),
            ImageColumn::Id => self.id.cmp(&other.id),
            ImageColumn::Size => self.size_bytes.cmp(&other.size_bytes),
            ImageColumn::Pods => self.pods.len().cmp(&other.pods.len()),
            // The age grows, as in other tables: the youngest comes first.
            ImageColumn::LastUsed => other.last_used.cmp(&self.last_used),
            ImageColumn::Source => self.source.cmp(&other.source),
        };
        let by = if is_descending { by.reverse() } else { by };
        other
            .pull
            .is_some()
            .cmp(&self.pull.is_some())
            .then(by)
            .then_with(|| natural(self.name(), other.name()))
            .then_with(|| natural(&self.node, &other.node))
            .then_with(|| self.id.cmp(&other.id))
    }
}

/// Returns the full name of an image: `docker.io/library/nginx:latest` for `nginx`.
pub fn full_image_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let tagged = if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") };
    let first = tagged.split('/').next().unwrap_or_default();
    let has_registry = first.contains(['.', ':']) || first == "localhost";
    match (tagged.contains('/'), has_registry) {
        (true, true) => tagged,
        (true, false) => format!("docker.io/{tagged}"),
        (false, _) => format!("docker.io/library/{tagged}"),
    }
}

/// Returns the rows of a node whose kubelet lists its images.
pub fn of_kubelet(node: &str, listed: &NodeImages) -> Vec<ImageRow> {
    let pulls = listed.pulls.iter().map(|pull| of_pull(node, pull));
    let images = listed.images.iter().map(|image| of_image(node, image));
    pulls.chain(images).collect()
}

fn of_pull(node: &str, pull: &NodeImagePull) -> ImageRow {
    let progress = PullProgress { done: pull.done_bytes, total: pull.total_bytes };
    ImageRow {
        node: node.to_owned(),
        names: vec![pull.image.clone()],
        id: String::new(),
        size_bytes: None,
        pods: Vec::new(),
        last_used: None,
        source: NodeImageSource::Unknown,
        pull: Some(match &pull.error {
            Some(error) => PullRow::Failed(error.clone()),
            None => PullRow::Running(progress),
        }),
        is_managed: true,
    }
}

fn of_image(node: &str, image: &NodeImage) -> ImageRow {
    ImageRow {
        node: node.to_owned(),
        names: image.names.clone(),
        id: image.id.clone(),
        size_bytes: Some(image.size_bytes),
        pods: image.pods.clone(),
        last_used: image.last_used,
        source: image.source,
        pull: None,
        is_managed: true,
    }
}

/// Returns the rows of a node of which only the API's objects tell the images: the node, and the pods on it.
pub fn of_objects<'a>(node: &Node, pods: impl Iterator<Item = &'a Pod>) -> Vec<ImageRow> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
    let mut rows: Vec<ImageRow> = images
        .map(|image| {
            let all = image.names.clone().unwrap_or_default();
            let (digests, mut names): (Vec<_>, Vec<_>) = all.into_iter().partition(|name| name.contains('@'));
            let id =
                digests.first().and_then(|name| name.split_once('@')).map(|(_, digest)| digest.to_owned());
            names.extend(digests);
            ImageRow {
                node: name.to_owned(),
                names,
                id: id.unwrap_or_default(),
                size_bytes: image.size_bytes.and_then(|bytes| u64::try_from(bytes).ok()),
                pods: Vec::new(),
                last_used: None,
                source: NodeImageSource::Unknown,
                pull: None,
                is_managed: false,
            }
        })
        .collect();
    for pod in pods {
        let Some(status) = &pod.status else { continue };
        let (namespace, pod_name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
        let label = format!("{}/{}", namespace.unwrap_or_default(), pod_name.unwrap_or_default());
        let containers = [
            &status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses,
        ];
        for container in containers.into_iter().flatten().flatten() {
            let used = rows.iter_mut().find(|row| is_of(row, container));
            if let Some(row) = used.filter(|row| !row.pods.contains(&label)) {
                row.pods.push(label.clone());
            }
        }
    }
    rows
}

/// Returns whether a container runs an image: by its digest, or by its name where runtimes report no digest.
fn is_of(row: &ImageRow, container: &ContainerStatus) -> bool {
    let id = container.image_id.as_str();
    let id = id.split_once("://").map_or(id, |(_, id)| id);
    if id.is_empty() {
        return false;
    }
    if id.contains('@') && row.names.iter().any(|name| name.contains('@')) {
        return row.names.iter().any(|name| familiar(name) == familiar(id));
    }
    row.id == id || row.names.iter().any(|name| familiar(name) == familiar(&container.image))
}

/// Returns `nginx:latest` for `docker.io/library/nginx`: nodes have full names, and pods may have short ones.
fn familiar(name: &str) -> String {
    let short = name.strip_prefix("docker.io/").unwrap_or(name);
    let short = short.strip_prefix("library/").unwrap_or(short);
    let last = short.rsplit('/').next().unwrap_or(short);
    if last.contains([':', '@']) { short.to_owned() } else { format!("{short}:latest") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(images: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n1"}, "status": {"images": images}}))
            .expect("a node")
    }

    fn pod(name: &str, image: &str, id: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name},
            "status": {"containerStatuses": [{"name": "c", "image": image, "imageID": id, "ready": true,
                "restartCount": 0}]}}))
        .expect("a pod")
    }

    #[test]
    fn any_clusters_images_are_joined_with_their_pods_con_22() {
        let images = json!([
            {"names": ["docker.io/library/nginx@sha256:aa", "docker.io/library/nginx:1.27"], "sizeBytes": 70},
            {"names": ["registry.k8s.io/pause:3.9"], "sizeBytes": 7},
            {"names": null, "sizeBytes": -1},
        ]);
        let pods = [
            pod("web", "nginx:1.27", "docker.io/library/nginx@sha256:aa"),
            pod("old", "docker.io/library/nginx:1.27", "docker-pullable://nginx@sha256:aa"),
            pod("newer", "nginx:1.27", "docker.io/library/nginx@sha256:bb"),
            pod("still", "registry.k8s.io/pause:3.9", "sha256:1234"),
            pod("pending", "registry.k8s.io/pause:3.9", ""),
        ];
        let rows = of_objects(&node(&images), pods.iter());
        let seen: Vec<_> =
            rows.iter().map(|row| (row.name(), row.short_id(), row.size_bytes, row.pods.join(" "))).collect();
        assert_eq!(
            seen,
            [
                ("docker.io/library/nginx:1.27", "aa", Some(70), "default/web default/old".to_owned()),
                ("registry.k8s.io/pause:3.9", "", Some(7), "default/still".to_owned()),
                ("", "", None, String::new()),
            ]
        );
        assert!(
            rows.iter().all(|row| !row.is_managed && row.source.word() == "-" && row.last_used.is_none())
        );
    }

    #[test]
    fn rows_are_sorted_with_pulls_first_con_22() {
        let at = |second| Timestamp::from_second(second).ok();
        let image = |name: &str, size_bytes, second| NodeImage {
            names: vec![name.to_owned()],
            size_bytes,
            last_used: at(second),
            ..NodeImage::default()
        };
        let listed = NodeImages {
            images: vec![image("b:2", 5, 10), image("b:10", 9, 30), image("a:1", 7, 20)],
            pulls: vec![NodeImagePull { image: "z".into(), ..NodeImagePull::default() }],
            omitted: 0,
        };
        let rows = of_kubelet("n1", &listed);
        let sorted = |column, is_descending| {
            let mut rows = rows.clone();
            rows.sort_by(|one, other| one.order(other, column, is_descending));
            rows.iter().map(|row| row.name().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(ImageColumn::Name, false), "z a:1 b:2 b:10");
        assert_eq!(sorted(ImageColumn::Name, true), "z b:10 b:2 a:1");
        assert_eq!(sorted(ImageColumn::Size, true), "z b:10 a:1 b:2");
        assert_eq!(sorted(ImageColumn::LastUsed, false), "z b:10 a:1 b:2");
        assert_eq!(sorted(ImageColumn::Node, false), "z a:1 b:2 b:10");
    }

    #[test]
    fn short_ids_hold_for_any_text_con_22() {
        for (id, short) in [
            ("sha256:0123456789abcdef", "0123456789ab"),
            ("", ""),
            ("ähnlich:ääääääääääääää", "ääääääääääää"),
        ] {
            let row = of_image("n", &NodeImage { id: id.to_owned(), ..NodeImage::default() });
            assert_eq!(row.short_id(), short);
        }
    }

    #[test]
    fn names_are_completed_as_container_tools_do_con_22() {
        for (name, expected) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("curlimages/curl", "docker.io/curlimages/curl:latest"),
            ("127.0.0.1:5000/me/app:1", "127.0.0.1:5000/me/app:1"),
            ("localhost/app", "localhost/app:latest"),
            ("x.io/y@sha256:1", "x.io/y@sha256:1"),
        ] {
            assert_eq!(full_image_name(name), expected);
        }
    }
}
