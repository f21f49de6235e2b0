//! Images of a node: pulls and removals by its kubelet (CON-22).

use k8s_openapi::api::core::v1::Node;

use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect, Outbox};
use console_data::action::{Action, Mutation};
use console_data::catalogue::Catalogue;
use console_data::node_images::ImageRow;
use console_data::resource::ObjectRef;
use console_toolkit::text::clean;
use object::node_image::NodeImageSource::{BuiltIn, Declared, Loaded};
use object::node_image::{NodeImagePull, image_path};

/// The course of an operation, for the screen that lists images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageOperation {
    /// The user requests a pull.
    PullRequested {
        /// The node.
        node: String,
        /// The name as typed.
        image: String,
    },
    /// The node has accepted a pull, which goes on by itself.
    PullAccepted {
        /// The node.
        node: String,
        /// The full name of the image.
        image: String,
    },
    /// The user removes an image.
    RemovalRequested,
}

/// Creates the dialog that asks for an image and a node.
pub fn pull_dialog(nodes: Vec<String>, node: &str, image: &str) -> Dialog {
    let mut fields = Fields::default();
    let name = fields.add(Field::text("image", image).hint("NAME:TAG"));
    let at = fields.add(Field::choice("node", nodes).picking(node));
    Dialog::new("Pull an image", "Pull", move |dialog, _| {
        let image = dialog.text(name).trim().to_owned();
        if image.is_empty() {
            return Err("the image is required".to_owned());
        }
        Ok(vec![Effect::send(ImageOperation::PullRequested { node: dialog.choice(at).to_owned(), image })])
    })
    .fields(fields)
    .line("Credentials come from the node's Docker configuration.")
}

/// Requests a pull; the screen receives [`ImageOperation::PullAccepted`].
pub async fn pull(out: Outbox, node: ObjectRef, image: String) {
    let path = image_path(&node.name, &image);
    let title = format!("pull image {image} on {}", node.name);
    let kubectl = format!("kubectl create --raw '{path}' -f - <<< '{{}}'");
    // Its end is reported, not its start.
    let action =
        Action::new(&node, title, kubectl, Mutation::PullImage { node: node.clone(), image }).quietly();
    // The action itself reports a refusal.
    let Ok(answer) = out.act(action).await else { return };
    if let Ok(NodeImagePull { image, .. }) = base::json::from_value(answer) {
        out.data(ImageOperation::PullAccepted { node: node.name, image }).await;
    }
}

/// Returns the reason why an image cannot be removed, as far as the row tells it.
pub fn refuses_removal(row: &ImageRow) -> Option<String> {
    let name = clean(row.name()).into_owned();
    match (&row.pull, row.source) {
        (Some(_), _) => Some(format!("{name} is not on the node: its pull is listed")),
        _ if !row.is_managed => Some(format!("the kubelet of {} does not remove images", clean(&row.node))),
        (None, BuiltIn) => Some(format!("{name} is built in")),
        (None, Declared) => Some(format!("{name} is declared in a file of yours")),
        _ if row.pods.is_empty() => None,
        _ => {
            let more = row.pods.len() - 1;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Some(format!("{name} is in use by pod {}{more}: delete the pod first", clean(&row.pods[0])))
        }
    }
}

/// Creates the dialog that confirms the removal of an image with all its names.
pub fn removal_dialog(catalogue: &Catalogue, row: &ImageRow) -> Dialog {
    let node = node(catalogue, &row.node);
    // A single name reads better in messages; an id takes all names with it.
    let image = if row.names.len() == 1 { row.names[0].clone() } else { row.id.clone() };
    let title = format!("Remove {} from {}", clean(row.name()), clean(&row.node));
    let dialog = Dialog::new(title, "Remove", move |_, _| {
        let action = removal(&node, image.clone());
        Ok(vec![Effect::Act(Box::new(action)), Effect::send(ImageOperation::RemovalRequested)])
    });
    let others = row.names.iter().skip(1).take(MAX_NAMES);
    dialog.lines(others.map(|name| format!("also {}", clean(name)))).warning(if row.source == Loaded {
        "all nodes that share its files lose it; only its archive brings it back"
    } else {
        "all nodes that share its files lose it; a pull brings it back"
    })
}

/// The maximum number of further names in the dialog.
const MAX_NAMES: usize = 5;

fn removal(node: &ObjectRef, image: String) -> Action {
    let path = image_path(&node.name, &image);
    let title = format!("remove image {image} of {}", node.name);
    let kubectl = format!("kubectl delete --raw '{path}'");
    Action::new(node, title, kubectl, Mutation::RemoveImage { node: node.clone(), image })
}

/// Returns a node by its name.
pub fn node(catalogue: &Catalogue, name: &str) -> ObjectRef {
    ObjectRef { kind: catalogue.kind::<Node>(), namespace: None, name: name.to_owned(), uid: None }
}
