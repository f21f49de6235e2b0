//! Adds a node: creates a Node object that asks the control plane to run it (NODE-6).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::label_syntax::{TaintChange, labels, taints};
use crate::dialog::{Field, Fields};
use crate::effect::{Dialog, Effect};
use console_data::action::{Action, Mutation};
use console_data::builtin_kinds;
use console_data::catalogue::Catalogue;
use console_data::resource::ObjectRef;
use object::well_known::annotation::PODIUM_NODE;

/// A resource that only Podium serves. A server that has it runs a node for each Node object that requests one.
const PODIUM_RESOURCE: &str = "schedulingverdicts";
const PROCESSES: &str = "processes";
const NOTHING: &str = "nothing (hollow)";

/// The properties of a new node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewNode {
    name: String,
    hollow: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    capacity: BTreeMap<String, String>,
}

impl NewNode {
    /// Parses `NAME zone=east hollow disk=ssd gpu=yes:NoSchedule cpu=4`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("the name is required")?;
        if name.contains('=') {
            return Err(format!("{name}: the node's name must come first"));
        }
        let mut node = Self { name: name.to_owned(), ..Self::default() };
        for word in words {
            if word == "hollow" {
                node.hollow = true;
            } else if word.contains(':') {
                node.taint(word)?;
            } else {
                node.add_label(word)?;
            }
        }
        Ok(node)
    }

    fn taint(&mut self, text: &str) -> Result<(), String> {
        for change in taints(text)? {
            match change {
                TaintChange::Set(taint) => self.taints.push(taint),
                TaintChange::Remove { key, .. } => {
                    return Err(format!("{key}: a new node has no taint to remove"));
                }
            }
        }
        Ok(())
    }

    /// Parses a label, or one of the abbreviations.
    fn add_label(&mut self, text: &str) -> Result<(), String> {
        for change in labels(text)? {
            let value =
                change.value.ok_or_else(|| format!("{}: a new node has no label to remove", change.key))?;
            match change.key.as_str() {
                "zone" | "region" => {
                    self.labels.insert(format!("topology.kubernetes.io/{}", change.key), value);
                }
                "cpu" | "memory" | "pods" | "ephemeral-storage" => {
                    self.capacity.insert(change.key, value);
                }
                _ => {
                    self.labels.insert(change.key, value);
                }
            }
        }
        Ok(())
    }

    /// Returns the action that creates the node; its undo deletes the node.
    pub fn action(&self) -> Action {
        let how = if self.hollow { "hollow" } else { "process" };
        let mut body = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": self.labels,
                "annotations": {PODIUM_NODE: how},
            },
        });
        if !self.taints.is_empty() {
            body["spec"] = json!({"taints": self.taints});
        }
        if !self.capacity.is_empty() {
            body["status"] = json!({"capacity": self.capacity});
        }
        let target = ObjectRef {
            kind: builtin_kinds::kind::<Node>(),
            namespace: None,
            name: self.name.clone(),
            uid: None,
        };
        // Quoted for a shell: within the text, a single quote closes the quotation, is escaped, and opens it again.
        let kubectl = format!("kubectl create -f - <<< '{}'", body.to_string().replace('\'', r"'\''"));
        Action::new(&target, format!("add {}", target.describe()), kubectl, Mutation::create(&target, body))
    }
}

/// Reports whether the cluster runs requested nodes; an error says why not.
pub fn allowed(catalogue: &Catalogue) -> Result<(), String> {
    match catalogue.find(PODIUM_RESOURCE) {
        Some(_) => Ok(()),
        None => Err("Podium does not run this cluster: a node joins it through its kubelet".into()),
    }
}

/// Creates the dialog for a new node.
pub fn dialog() -> Dialog {
    let kinds = [PROCESSES, NOTHING].map(String::from).to_vec();
    let mut fields = Fields::default();
    let name = fields.add(Field::text("name", ""));
    let runs = fields.add(Field::choice("runs", kinds).hint("← → to pick"));
    let zone = fields.add(Field::text_or("zone", "assigned in turn"));
    let region = fields.add(Field::text_or("region", "local"));
    let typed_labels = fields.add(Field::text_or("labels", "key=value …"));
    let typed_taints = fields.add(Field::text_or("taints", "key=value:NoSchedule …"));
    Dialog::new("Add a node", "Add", move |dialog, _| {
        let name = dialog.text(name).trim();
        if name.is_empty() {
            return Err("the name is required".into());
        }
        let mut node =
            NewNode { name: name.to_owned(), hollow: dialog.choice(runs) == NOTHING, ..NewNode::default() };
        for (key, field) in [("zone", zone), ("region", region)] {
            let value = dialog.text(field).trim();
            if !value.is_empty() {
                node.add_label(&format!("{key}={value}"))?;
            }
        }
        for change in labels(dialog.text(typed_labels))? {
            let value =
                change.value.ok_or_else(|| format!("{}: a new node has no label to remove", change.key))?;
            node.labels.insert(change.key, value);
        }
        node.taint(dialog.text(typed_taints))?;
        Ok(vec![Effect::Act(Box::new(node.action()))])
    })
    .fields(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_added_in_one_line_node_6() {
        let node = NewNode::parse("gpu zone=east hollow disk=ssd cpu=4 team=a:NoExecute").unwrap();
        let Mutation::Create { body, .. } = node.action().mutation else { panic!("it creates") };
        let labels = json!({"topology.kubernetes.io/zone": "east", "disk": "ssd"});
        let taints = json!([{"key": "team", "value": "a", "effect": "NoExecute"}]);
        assert_eq!(body["metadata"]["labels"], labels);
        assert_eq!(body["metadata"]["annotations"], json!({"podium.dev/node": "hollow"}));
        assert_eq!((&body["spec"]["taints"], &body["status"]["capacity"]), (&taints, &json!({"cpu": "4"})));
        for (wrong, why) in [
            ("", "the name is required"),
            ("zone=a", "the node's name must come first"),
            ("a b", "write key=value"),
            ("a b-", "has no label to remove"),
            ("a b:NoSchedule-", "has no taint to remove"),
            ("a b:Nowhere", "unknown effect"),
        ] {
            let error = NewNode::parse(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
