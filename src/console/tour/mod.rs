//! The tour (`:tour`): rollout, undo, drain and debug on the shipped sample, step by step, for newcomers.
//!
//! A step is complete when the cluster shows that it was done, by any client: the tour looks at the stores, never at
//! keys. It can be suspended at any step, and resumed there.

pub(crate) mod sample_app;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use console_data::journal::Journal;
use console_data::resource::ObjectRef;
use console_data::rows::node::is_cordoned;
use console_data::scope::Scope;
use console_data::store::{Stores, uid_of};
use console_toolkit::command::{Bindings, Command};
use object::ObjectPart as _;
use object::node::is_ready;
use object::well_known::annotation::DEPLOYMENT_REVISION;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TourStep {
    /// The sample does not exist, or none of its pods is ready.
    Sample,
    /// Roll out another template.
    Rollout,
    /// Return to an earlier template.
    Undo,
    /// Drain a node.
    Drain,
    /// Uncordon the node.
    Uncordon,
    /// Start a debugger in a pod.
    Debug,
    /// All steps are complete.
    Over,
}

/// The maximum number of templates remembered; the oldest is dropped first.
const TEMPLATES: usize = 16;
/// The number of steps for the user.
const STEPS: usize = 5;

/// The state of the tour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tour {
    /// The present step.
    pub(crate) step: TourStep,
    pub(crate) suspended: bool,
    /// The namespace and name of the practice Deployment.
    subject: Option<(String, String)>,
    /// The pod templates of that Deployment since the tour chose it, oldest first; at most [`TEMPLATES`].
    templates: Vec<Value>,
    /// The number of rollouts of that Deployment when the tour chose it.
    revision: i64,
    /// The nodes that were cordoned before the drain.
    cordoned: BTreeSet<String>,
    /// The drained node.
    drained: Option<String>,
    /// The debuggers that existed before the step, each with its pod's name.
    debuggers: BTreeSet<(String, String)>,
    /// The number of journal entries before the step, and before the last completed one.
    before: usize,
    before_completed: usize,
    /// The last completed step, and its kubectl command; none if another client completed it.
    completed: Option<TourStep>,
    kubectl: Option<String>,
}

impl Tour {
    /// Creates a tour at its start.
    pub(crate) fn new(journal: &Journal) -> Self {
        Self {
            step: TourStep::Sample,
            suspended: false,
            subject: None,
            templates: Vec::new(),
            revision: 0,
            cordoned: BTreeSet::new(),
            drained: None,
            debuggers: BTreeSet::new(),
            before: journal.entries().len(),
            before_completed: journal.entries().len(),
            completed: None,
            kubectl: None,
        }
    }

    /// Checks the cluster; returns whether the panel changed.
    pub(crate) fn advance(&mut self, stores: &Stores, journal: &Journal, scope: &Scope) -> bool {
        let before = (self.step, self.kubectl.is_some());
        while let Some((next, kubectl)) = self.next(stores, scope) {
            self.completed = (next != TourStep::Sample).then_some(self.step);
            self.step = next;
            self.kubectl = kubectl;
            self.before_completed = std::mem::replace(&mut self.before, journal.entries().len());
            if next == TourStep::Drain {
                self.cordoned = cordoned(stores).map(|(name, _)| name.to_owned()).collect();
            }
            if next == TourStep::Debug {
                self.debuggers = self.debuggers(stores).collect();
            }
        }
        // A change may reach the stores before it reaches the journal.
        if self.kubectl.is_none()
            && let Some((index, kubectl)) = self.completed.and_then(|step| self.command_of(step, journal))
        {
            self.kubectl = Some(kubectl);
            // The entry does not belong to the present step.
            self.before = self.before.max(index + 1);
        }
        before != (self.step, self.kubectl.is_some())
    }

    /// Returns the command by which the user completed a step in the console, with its index in the journal.
    fn command_of(&self, step: TourStep, journal: &Journal) -> Option<(usize, String)> {
        let is_of_step = |target: &ObjectRef| match step {
            TourStep::Rollout | TourStep::Undo => target.kind.is::<Deployment>(),
            TourStep::Debug => target.kind.is::<Pod>(),
            _ => true,
        };
        // Of the entries of the present step, only the first may belong to the completed one.
        let end = journal.entries().len().min(self.before + 1);
        let entries = journal.entries();
        let index = (self.before_completed..end).rev().find(|index| {
            let outcome = entries.get(*index).map(|entry| &entry.outcome);
            outcome.is_some_and(|outcome| outcome.error.is_none() && is_of_step(&outcome.action.target))
        })?;
        Some((index, entries.get(index)?.outcome.action.kubectl.clone()))
    }

    /// Returns the next step if the present one is complete, with the command for it if that is not in the journal.
    fn next(&mut self, stores: &Stores, scope: &Scope) -> Option<(TourStep, Option<String>)> {
        if self.step == TourStep::Over {
            return None;
        }
        if self.step == TourStep::Sample {
            let web = subject(stores, scope)?;
            let ready = web.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
            if ready < 1 {
                return None;
            }
            self.subject = Some((web.metadata.namespace.clone()?, web.metadata.name.clone()?));
            (self.templates, self.revision) = (vec![template(web)], revision(web));
            return Some((TourStep::Rollout, None));
        }
        let Some(web) = self.web(stores) else {
            // The Deployment was deleted: the tour starts again, with another one if there is one.
            return self.is_sample_deleted(stores).then_some((TourStep::Sample, None));
        };
        match self.step {
            TourStep::Rollout => {
                let new = template(web);
                let is_other = revision(web) > self.revision && self.templates.last() != Some(&new);
                is_other.then(|| self.templates.push(new)).map(|()| (TourStep::Undo, None))
            }
            TourStep::Undo => {
                let now = template(web);
                if self.templates.last() == Some(&now) {
                    return None;
                }
                // After a third rollout the user undoes that one; any earlier template counts.
                if self.templates.contains(&now) {
                    return Some((TourStep::Drain, None));
                }
                self.templates.push(now);
                if self.templates.len() > TEMPLATES {
                    self.templates.remove(0);
                }
                None
            }
            TourStep::Drain => {
                let is_new = |(name, _): &(&str, &Node)| !self.cordoned.contains(*name);
                let uid = uid_of(web)?;
                let is_empty =
                    |(name, _): &(&str, &Node)| !pods_of(stores, &uid).any(|pod| node_of(pod) == Some(*name));
                let drained =
                    cordoned(stores).filter(is_new).find(is_empty).map(|(name, _)| name.to_owned())?;
                self.drained = Some(drained.clone());
                Some((TourStep::Uncordon, Some(format!("kubectl drain {drained} --ignore-daemonsets"))))
            }
            TourStep::Uncordon => {
                let drained = self.drained.clone()?;
                let is_still = cordoned(stores).any(|(name, _)| name == drained);
                (!is_still).then(|| (TourStep::Debug, Some(format!("kubectl uncordon {drained}"))))
            }
            TourStep::Debug => {
                let new = self.debuggers(stores).any(|debugger| !self.debuggers.contains(&debugger));
                new.then_some((TourStep::Over, None))
            }
            TourStep::Sample | TourStep::Over => None,
        }
    }

    fn web<'a>(&self, stores: &'a Stores) -> Option<&'a Deployment> {
        let (namespace, name) = self.subject.as_ref()?;
        stores.deployments().by_name(namespace, name)
    }

    fn is_sample_deleted(&self, stores: &Stores) -> bool {
        stores.deployments().synced() && self.web(stores).is_none()
    }

    /// Returns the crashing sample pod, in the subject's namespace.
    fn crashing<'a>(&self, stores: &'a Stores) -> Option<&'a Pod> {
        let (namespace, _) = self.subject.as_ref()?;
        stores.pods().by_name(namespace, sample_app::CRASHING)
    }

    /// Returns the debuggers in pods of the subject and in the crashing sample pod, each with its pod's name.
    fn debuggers<'a>(&self, stores: &'a Stores) -> impl Iterator<Item = (String, String)> + use<'a> {
        let uid = self.web(stores).and_then(uid_of);
        let pods = uid.into_iter().flat_map(move |uid| pods_of(stores, &uid).collect::<Vec<_>>());
        let pods = pods.chain(self.crashing(stores));
        pods.flat_map(|pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let debuggers = pod.spec.iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
            debuggers.map(move |debugger| (name.clone(), debugger.name.clone()))
        })
    }

    /// Returns the text of the panel: the progress, the instruction, and the kubectl command for the last step.
    pub(crate) fn panel_text(&self, stores: &Stores, bindings: &Bindings) -> TourText {
        let key = |command: Command| match bindings.key(command) {
            Some(key) => format!("<{key}>"),
            None => format!(":{}", command.name()),
        };
        let name = self.subject.as_ref().map_or(sample_app::NAME, |(_, name)| name.as_str());
        let (title, what) = match self.step {
            TourStep::Sample => ("The sample", sample_is_missing(stores)),
            TourStep::Rollout => (
                "Roll out",
                format!(
                    ":deploy, go to {name}, {} sets another image: {}. {} shows the progress, {} goes back.",
                    key(Command::SetImage),
                    sample_app::other_image(self.web(stores)),
                    key(Command::Rollout),
                    key(Command::Back)
                ),
            ),
            TourStep::Undo => (
                "Undo the rollout",
                format!(
                    ":deploy, go to {name}, {} lists its revisions with the previous one picked; {undo} shows the diff and undoes \
                     the rollout. So does {undo} in the journal ({}).",
                    key(Command::Rollback),
                    key(Command::OpenJournal),
                    undo = key(Command::Undo)
                ),
            ),
            TourStep::Drain if ready_nodes(stores) < 2 => (
                "Drain a node",
                "This needs a second node for the pods: :add-node adds one if Podium runs the nodes."
                    .to_owned(),
            ),
            TourStep::Drain => (
                "Drain a node",
                format!(
                    ":nodes, go to one that has pods of {name}, {} previews the evictions and the pods that a budget protects; {} starts.",
                    key(Command::OpenDrain),
                    key(Command::DrainStart)
                ),
            ),
            TourStep::Uncordon => (
                "Uncordon the node",
                format!(
                    ":nodes, go to {}, {} uncordons it.",
                    self.drained.as_deref().unwrap_or_default(),
                    key(Command::Uncordon)
                ),
            ),
            TourStep::Debug => (
                "Debug a pod",
                format!(
                    ":pods, go to {}, {} starts a debugger in it with a terminal; {} detaches from it.",
                    match self.crashing(stores) {
                        Some(_) => format!("{}, which keeps crashing", sample_app::CRASHING),
                        None => format!("one of {name}"),
                    },
                    key(Command::Debug),
                    key(Command::TerminalDetach)
                ),
            ),
            TourStep::Over => (
                "Complete",
                format!(
                    "{} lists every change with its kubectl command; :drills has exercises in troubleshooting. :tour ends the tour.",
                    key(Command::OpenJournal)
                ),
            ),
        };
        let at = match self.step {
            TourStep::Sample => String::new(),
            TourStep::Over => " ✔".to_owned(),
            step => format!(" {}/{STEPS}", step as usize),
        };
        TourText {
            title: format!("Tour{at} · {title}"),
            instruction: what,
            kubectl: self.kubectl.clone().filter(|text| !text.is_empty()),
        }
    }
}

/// The text of the panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TourText {
    /// The progress, and the title of the step.
    pub(crate) title: String,
    pub(crate) instruction: String,
    /// The kubectl command for the last completed step.
    pub(crate) kubectl: Option<String>,
}

fn sample_is_missing(stores: &Stores) -> String {
    let there = stores
        .deployments()
        .iter()
        .any(|(_, object)| object.metadata.name.as_deref() == Some(sample_app::NAME));
    if there {
        format!("Deployment {} exists; the tour continues when one of its pods is ready.", sample_app::NAME)
    } else {
        format!(
            "The tour needs Deployment {}: :tour offers to apply the sample, or use kubectl apply -f {}.",
            sample_app::NAME,
            sample_app::FILE
        )
    }
}

/// Returns the practice Deployment: from the namespace in scope, else from any.
pub(crate) fn subject<'a>(stores: &'a Stores, scope: &Scope) -> Option<&'a Deployment> {
    let all = stores.deployments().iter().map(|(_, object)| object);
    let named = all.filter(|object| object.metadata.name.as_deref() == Some(sample_app::NAME));
    named.max_by_key(|object| {
        let namespace = object.metadata.namespace.as_deref();
        (scope.holds(namespace), namespace == Some("default"), object.metadata.namespace.clone())
    })
}

fn template(web: &Deployment) -> Value {
    web.spec.template.to_value()
}

fn revision(web: &Deployment) -> i64 {
    let annotations = web.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(DEPLOYMENT_REVISION)?.parse().ok()).unwrap_or(0)
}

fn cordoned(stores: &Stores) -> impl Iterator<Item = (&str, &Node)> {
    let nodes = stores.nodes().iter().map(|(_, node)| node);
    nodes.filter(|node| is_cordoned(node)).filter_map(|node| Some((node.metadata.name.as_deref()?, node)))
}

fn ready_nodes(stores: &Stores) -> usize {
    stores.nodes().iter().filter(|(_, node)| is_ready(node)).count()
}

/// Returns the pods of a Deployment, through its ReplicaSets.
fn pods_of<'a>(
    stores: &'a Stores,
    deployment: &console_data::resource::Uid,
) -> impl Iterator<Item = &'a Pod> + use<'a> {
    let sets = stores.replica_sets().owned_by(deployment).filter_map(uid_of);
    sets.flat_map(|set| stores.pods().owned_by(&set).collect::<Vec<_>>())
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
