//! The images of a node, as the endpoint `nodes/NAME/proxy/images` of Podium's kubelets describes them to clients.
//!
//! Clients may be older or newer than the node: absent fields have defaults, and unknown ones are ignored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// The characters that are encoded in a segment of a path.
const IN_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');
/// The characters that are encoded in a parameter.
const IN_PARAMETER: &AsciiSet = &IN_SEGMENT.remove(b'/').remove(b':').remove(b'@');

/// Returns the path of a node's images, for the list.
pub fn list_path(node: &str) -> String {
    format!("/api/v1/nodes/{}/proxy/images", utf8_percent_encode(node, IN_SEGMENT))
}

/// Returns the path for pulls and removals of the image of this name or id.
pub fn image_path(node: &str, name: &str) -> String {
    with_name(&list_path(node), name)
}

/// Returns the path of the details of the image of this name or id.
pub fn details_path(node: &str, name: &str) -> String {
    with_name(&format!("{}/details", list_path(node)), name)
}

/// Returns the path of the explanation of a name.
pub fn explanation_path(node: &str, name: &str) -> String {
    with_name(&format!("{}/explain", list_path(node)), name)
}

fn with_name(path: &str, name: &str) -> String {
    format!("{path}?name={}", utf8_percent_encode(name, IN_PARAMETER))
}

/// The response to `GET images`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImages {
    /// The images that the node can start containers from at once.
    pub images: Vec<NodeImage>,
    /// The pulls in progress, and those that a client requested and that failed a short time ago.
    pub pulls: Vec<NodeImagePull>,
    /// The number of further images, which the limit of the response leaves out.
    pub omitted: usize,
}

/// An image of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImage {
    /// Its names with tags, and its digests in repositories where it has no tag.
    pub names: Vec<String>,
    /// Its identity: `sha256:HEX`.
    pub id: String,
    /// Its digests in its repositories: `REPOSITORY@sha256:HEX`.
    pub digests: Vec<String>,
    /// The size of its files on disk.
    pub size_bytes: u64,
    /// The way it came to the node.
    pub source: NodeImageSource,
    /// The pods of the node with containers of it: `NAMESPACE/NAME`.
    pub pods: Vec<String>,
    /// The time of its last use or of its arrival, if it is known.
    pub last_used: Option<Timestamp>,
}

/// The way an image came to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeImageSource {
    /// From its registry.
    Pulled,
    /// From an archive that a user loaded.
    Loaded,
    /// From a build of `podium dev`.
    Built,
    /// A user declared it.
    Declared,
    /// Podium brings it along.
    BuiltIn,
    /// In a way that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl NodeImageSource {
    /// Returns the word for it in tables: `built-in`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pulled => "pulled",
            Self::Loaded => "loaded",
            Self::Built => "built",
            Self::Declared => "declared",
            Self::BuiltIn => "built-in",
            Self::Unknown => "-",
        }
    }
}

/// A pull of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImagePull {
    /// The full name of the image.
    pub image: String,
    /// The downloaded bytes.
    pub done_bytes: u64,
    /// The bytes to download, once they are known.
    pub total_bytes: Option<u64>,
    /// The reason why the pull failed; `None` while it is in progress.
    pub error: Option<String>,
}

/// The response to `GET images/details`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImageDetails {
    /// The image as in the list.
    pub image: NodeImage,
    /// Its platform: `linux/amd64`; empty for one without files of its own.
    pub platform: String,
    /// The time at which it was built, by its configuration.
    pub created: Option<Timestamp>,
    /// The time of its arrival.
    pub added_at: Option<Timestamp>,
    /// The digest of its manifest, if it is known.
    pub manifest_digest: Option<String>,
    /// The program and its fixed arguments.
    pub entrypoint: Vec<String>,
    /// The default arguments.
    pub cmd: Vec<String>,
    /// Its environment: `NAME=value`.
    pub env: Vec<String>,
    /// The working directory.
    pub working_dir: String,
    /// `user[:group]`; empty for root.
    pub user: String,
    /// The signal that stops it; empty for SIGTERM.
    pub stop_signal: String,
    /// The ports that it names: `80/tcp`.
    pub exposed_ports: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its layers, the lowest one first.
    pub layers: Vec<NodeImageLayer>,
}

/// A layer of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImageLayer {
    /// The digest of its uncompressed content.
    pub digest: String,
    /// The size of its files on disk, if it is known.
    pub size_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths_con_22() {
        assert_eq!(
            details_path("node-1", "a.io/b:1&name=x#?"),
            "/api/v1/nodes/node-1/proxy/images/details?name=a.io/b:1%26name%3Dx%23%3F"
        );
    }

    #[test]
    fn a_newer_nodes_response_is_read_con_22() {
        let text =
            r#"{"images": [{"names": ["redis:7"], "id": "sha256:1", "source": "beamed", "colour": "red"}]}"#;
        let read: NodeImages = serde_json::from_str(text).expect("a list");
        assert_eq!(read.images[0].source, NodeImageSource::Unknown);
        assert_eq!((read.images[0].names.as_slice(), read.omitted), (&["redis:7".to_owned()][..], 0));
    }
}
