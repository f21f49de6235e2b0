//! Reads the images of nodes from their kubelets.

use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Client;

use super::ImagesData;
use console_data::action::error_text;
use console_operations::effect::Outbox;
use object::node_image::{NodeImages, list_path};

/// The maximum number of requests at the same time.
const AT_ONCE: usize = 8;
/// The time that a node has for its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The answer of a node's kubelet.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeAnswer {
    /// Its images.
    Images(NodeImages),
    /// It does not list images: another kubelet than Podium's, or a hollow node.
    Absent,
    /// The user may not ask it; contains the server's message.
    Forbidden(String),
    /// The request failed.
    Failed(String),
}

/// Requests the images of these nodes after some time, and sends the answers.
pub(super) async fn poll(out: Outbox, nodes: Vec<String>, pause: Duration) {
    tokio::time::sleep(pause).await;
    let client = out.client();
    let requests = nodes.into_iter().map(|node| {
        let client = client.clone();
        async move {
            let answer = ask(client, &node).await;
            (node, answer)
        }
    });
    let answers: Vec<(String, NodeAnswer)> = stream::iter(requests).buffer_unordered(AT_ONCE).collect().await;
    out.data(ImagesData::Answers(answers)).await;
}

async fn ask(client: Client, node: &str) -> NodeAnswer {
    let request = match http::Request::get(list_path(node)).body(Vec::new()) {
        Ok(request) => request,
        Err(error) => return NodeAnswer::Failed(error.to_string()),
    };
    match tokio::time::timeout(PATIENCE, client.request::<NodeImages>(request)).await {
        Ok(Ok(images)) => NodeAnswer::Images(images),
        Ok(Err(error)) => refused(&error),
        Err(_) => NodeAnswer::Failed(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Interprets a failed request: a kubelet that does not list images does not know the path.
fn refused(error: &kube::Error) -> NodeAnswer {
    match error {
        kube::Error::Api(status) if matches!(status.code, 404 | 405) => NodeAnswer::Absent,
        kube::Error::Api(status) if status.code == 403 => NodeAnswer::Forbidden(error_text(error)),
        kube::Error::SerdeError(_) => NodeAnswer::Absent,
        _ => NodeAnswer::Failed(error_text(error)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn kubelets_without_the_list_and_refusals_are_distinguished_con_22() {
        for (code, expected) in [
            (404, NodeAnswer::Absent),
            (405, NodeAnswer::Absent),
            (403, NodeAnswer::Forbidden("no".into())),
            (503, NodeAnswer::Failed("no".into())),
        ] {
            let status: Status = serde_json::from_value(json!({"status": "Failure", "message": "no",
                "reason": "x", "code": code}))
            .expect("a status");
            assert_eq!(refused(&kube::Error::Api(Box::new(status))), expected);
        }
    }
}
