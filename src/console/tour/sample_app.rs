//! The sample of the tour, and the dialog for applying it.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::Value;

use console_data::action::{Action, Mutation};
use console_data::catalogue::Catalogue;
use console_data::resource::ObjectRef;
use console_operations::effect::{Dialog, Effect};
use object::well_known::annotation::LAST_APPLIED;

/// The name of the practice Deployment.
pub(crate) const NAME: &str = "web";
/// An image to roll out.
pub(crate) const OTHER_IMAGE: &str = "nginx:1.9.1";
/// An image to roll out if the Deployment already has [`OTHER_IMAGE`].
const FURTHER_IMAGE: &str = "nginx:1.25";
/// The sample pod to debug, if it exists: a debugger can enter it although it has crashed.
pub(crate) const CRASHING: &str = "crash-looper";
/// The path in the sources.
pub(super) const FILE: &str = "sample-manifests/01-web.yaml";

const TEXT: &str = include_str!("../../../sample-manifests/01-web.yaml");

/// Returns an image that the Deployment does not have.
pub(super) fn other_image(deployment: Option<&Deployment>) -> &'static str {
    let spec = deployment.and_then(|deployment| deployment.spec.template.spec.as_ref());
    let mut containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let is_rolled_out = containers.any(|container| container.image.as_deref() == Some(OTHER_IMAGE));
    if is_rolled_out { FURTHER_IMAGE } else { OTHER_IMAGE }
}

/// Creates the dialog for applying the sample to a namespace.
pub(crate) fn dialog(catalogue: &Catalogue, namespace: &str) -> Result<Dialog, String> {
    let action = action(catalogue, namespace)?;
    let lines: Vec<String> = match &action.mutation {
        Mutation::All(all) => all.iter().filter_map(created).collect(),
        _ => Vec::new(),
    };
    let kubectl = action.kubectl.clone();
    let dialog = Dialog::new("Apply the sample of the tour", "Apply", move |_, _| {
        Ok(vec![Effect::Act(Box::new(action.clone()))])
    });
    let reason = format!("The tour needs Deployment {NAME}, which does not exist. This creates:");
    Ok(dialog.line(reason).lines(lines).line("").line(kubectl))
}

fn created(mutation: &Mutation) -> Option<String> {
    match mutation {
        Mutation::Create { target, .. } => Some(format!("  {}", target.describe())),
        _ => None,
    }
}

fn action(catalogue: &Catalogue, namespace: &str) -> Result<Action, String> {
    let (mut makes, mut removes) = (Vec::new(), Vec::new());
    let mut first = None;
    for document in manifest::parse(TEXT, FILE) {
        let mut body = document.map_err(|error| error.to_string())?.value;
        let text = |field: &str| body.pointer(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let kind =
            catalogue.by_gvk(&version, &kind).cloned().ok_or_else(|| format!("the server has no {kind}"))?;
        body["metadata"]["namespace"] = namespace.into();
        // The annotation of kubectl apply, so that a user who continues with kubectl gets no warning.
        let applied = format!("{body}\n");
        body["metadata"]["annotations"][LAST_APPLIED] = applied.into();
        let target = ObjectRef { kind, namespace: Some(namespace.to_owned()), name, uid: None };
        first.get_or_insert_with(|| target.clone());
        removes.insert(0, Mutation::delete(&target));
        makes.push(Mutation::create(&target, body));
    }
    let target = first.ok_or("the sample is empty")?;
    let act = |verb: &str, mutations| {
        Action::new(
            &target,
            format!("{verb} the sample of the tour in {namespace}"),
            format!("kubectl {verb} -n {namespace} -f {FILE}"),
            Mutation::All(mutations),
        )
    };
    Ok(act("apply", makes).undone_by(act("delete", removes)))
}
