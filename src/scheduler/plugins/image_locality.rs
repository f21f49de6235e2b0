//! ImageLocality: prefers nodes that have the pod's images. Large images count more; images that few nodes have count
//! less, so that not all pods go to these nodes.

use crate::framework::{MAX_SCORE, NodeScore, Plugin, PluginId};
use crate::state::node_info::{NodeInfo, images_of};
use crate::state::pod_info::PodInfo;
use crate::state::snapshot::Snapshot;

const MIB: i64 = 1024 * 1024;
/// The total size of a pod's images up to which the score is 0.
const LEAST: i64 = 23 * MIB;
/// The most that one container's image counts.
const MAX_PER_CONTAINER: i64 = 1000 * MIB;

pub(super) struct ImageLocality;

struct Score {
    /// The normalized names of the containers' images, with the share of nodes that have each.
    images: Vec<(String, f64)>,
    containers: i64,
}

impl NodeScore for Score {
    fn score(&self, node: &NodeInfo) -> i64 {
        let there = images_of(&node.node);
        let mut sum = 0;
        for (name, share) in &self.images {
            let image = there.iter().find(|image| image.names.iter().flatten().any(|n| n == name));
            let size = image.and_then(|image| image.size_bytes).unwrap_or(0);
            sum += (size as f64 * share) as i64;
        }
        let most = MAX_PER_CONTAINER * self.containers.max(1);
        MAX_SCORE * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
    }
}

/// An image without a tag has the tag `latest`.
fn normalized(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains(':') || image.contains('@') { image.into() } else { format!("{image}:latest") }
}

impl Plugin for ImageLocality {
    fn id(&self) -> PluginId {
        PluginId::ImageLocality
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        _: &[usize],
    ) -> Option<Box<dyn NodeScore + 'a>> {
        let spec = pod.pod.spec.as_ref()?;
        let init = spec.init_containers.iter().flatten();
        let containers: Vec<_> = spec.containers.iter().chain(init).collect();
        let nodes = snapshot.nodes().len().max(1);
        let known = containers.iter().filter_map(|container| {
            let name = normalized(container.image.as_deref()?);
            let with = snapshot.images().nodes_with(&name);
            (with > 0).then(|| (name, with as f64 / nodes as f64))
        });
        let images: Vec<_> = known.collect();
        if images.is_empty() {
            return None;
        }
        Some(Box::new(Score { images, containers: containers.len() as i64 }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_objects::{node, pod_info};

    #[test]
    fn large_images_that_are_there_count_scaled_by_how_many_nodes_have_them_sch_4() {
        let mut snapshot = Snapshot::new();
        let with = |name: &str, images: serde_json::Value| {
            node(json!({"metadata": {"name": name}, "status": {"images": images}}))
        };
        let web = json!({"names": ["example.com/web:1", "example.com/web@sha256:0"], "sizeBytes": 500 * MIB});
        let base = json!({"names": ["base:latest"], "sizeBytes": 2000 * MIB});
        snapshot.set_node(with("a", json!([web, base])));
        snapshot.set_node(with("b", json!([web])));
        snapshot.set_node(with("c", json!([])));
        snapshot.set_node(with("d", json!([])));
        let scores = |images: &[&str]| -> Vec<i64> {
            let containers: Vec<_> = images.iter().map(|i| json!({"name": "c", "image": i})).collect();
            let pod = pod_info(json!({"spec": {"containers": containers}}));
            let Some(scorer) = ImageLocality.pre_score(&pod, &snapshot, &[]) else { return Vec::new() };
            snapshot.nodes().iter().map(|node| scorer.score(node)).collect()
        };
        // On two of four nodes: 500·2/4 = 250 MiB; 100·(250 − 23)/(1000 − 23) = 23.
        assert_eq!(scores(&["example.com/web:1"]), [23, 23, 0, 0]);
        // And on one of four, without a tag: 2000/4 = 500; a: 100·(250 + 500 − 23)/(2000 − 23) = 36, b: 11.
        assert_eq!(scores(&["example.com/web:1", "base"]), [36, 11, 0, 0]);
        assert!(scores(&["other"]).is_empty());
        // The image is removed from b: 500·1/4 = 125 MiB; 100·(125 − 23)/977 = 10.
        let mut later = Snapshot::new();
        for (name, images) in [("a", json!([web])), ("b", json!([web])), ("c", json!([])), ("d", json!([]))] {
            later.set_node(with(name, images));
        }
        later.set_node(with("b", json!([])));
        let pod = pod_info(json!({"spec": {"containers": [{"name": "c", "image": "example.com/web:1"}]}}));
        let scorer = ImageLocality.pre_score(&pod, &later, &[]).unwrap();
        assert_eq!(later.nodes().iter().map(|node| scorer.score(node)).collect::<Vec<_>>(), [10, 0, 0, 0]);
    }
}
