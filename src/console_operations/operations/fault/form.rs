//! The dialogs for a new fault: first its type, then the parameters of that type. Each type has its own fields.

use std::collections::BTreeSet;

use base::did_you_mean::nearest;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use object::selector::Selector;

use crate::dialog::{Choice, Field, FieldId, Fields, Note, Number, Switch, Text};
use crate::effect::{Dialog, Effect};
use console_data::builtin_kinds;
use console_data::context::Context;
use console_toolkit::text::clean;
use extension::fault::{
    DISK_FAILURES, Fault, FaultDisk, FaultImage, FaultLatency, FaultLoss, FaultRate, FaultRefuse, FaultSkew,
    FaultSpec, FaultTarget, NETWORK_TYPES, OTHER_TYPES, REFUSALS, read_disk, read_node, read_side,
    read_target, read_volume,
};

use super::create;

/// The disk failure with a delay.
const SLOW: &str = "Slow";
/// The consequence of a target that does not exist.
const WAITS: &str = "the fault begins when it appears";
/// The number of nodes named in a form.
const NODES: usize = 3;
/// The name for the disk of the control plane's store; any other name is a node's.
const STORE: &str = "store";

/// A part of a fault with a field of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    From,
    To,
    OneWay,
    Component,
    Clock,
    Node,
    SomeNodes,
    Disk,
    Volume,
    Pod,
    Webhook,
    Delay,
    Jitter,
    PerMille,
    BytesPerSecond,
    With,
    Failure,
    WriteDelay,
    By,
    PullDelay,
    Failing,
    Pattern,
    Duration,
}

/// The input field of a part.
#[derive(Clone, Copy, Debug)]
enum Input {
    Text(FieldId<Text>),
    Number(FieldId<Number>),
    Switch(FieldId<Switch>),
    Choice(FieldId<Choice>),
}

impl Input {
    /// Returns the value of the field, as text.
    fn entered(self, dialog: &Dialog) -> Result<String, String> {
        Ok(match self {
            Self::Text(field) => dialog.text(field).to_owned(),
            Self::Number(field) => dialog.number(field)?.map(|n| n.to_string()).unwrap_or_default(),
            Self::Switch(field) => if dialog.is_on(field) { "on" } else { "off" }.to_owned(),
            Self::Choice(field) => dialog.choice(field).to_owned(),
        })
    }
}

/// Returns all types of faults.
fn types() -> impl Iterator<Item = &'static str> {
    NETWORK_TYPES.iter().chain(OTHER_TYPES).copied()
}

/// Describes a type of fault in one sentence.
fn about(type_: &str) -> &'static str {
    match type_ {
        "Partition" => "Cuts the network between two sides.",
        "Latency" => "Delays packets between two sides.",
        "Loss" => "Loses packets between two sides.",
        "Rate" => "Limits the bytes per second between two sides.",
        "Refuse" => "Refuses connections between two sides.",
        "Crash" => "Stops a component at once; it starts again when the fault ends.",
        "Pause" => "Pauses a component until the fault ends.",
        "PowerOff" => "Switches nodes off: their processes are killed. They boot when the fault ends.",
        "Disk" => "Makes the disk of nodes, or of the store, full, failing or slow.",
        "VolumeFull" => "Makes a volume full: programs get ENOSPC.",
        "ClockSkew" => "Shifts the clock of a kubelet, the controllers or the scheduler.",
        "OutOfMemory" => "Kills containers once, as the kernel does when memory runs out.",
        "Webhook" => "Makes calls of webhooks hang until they time out.",
        "ImagePull" => "Makes image pulls slow, or makes them fail.",
        _ => "",
    }
}

/// Returns the required and optional parts of a type, in the order of its form.
fn parts(type_: &str) -> &'static [Part] {
    use Part::{
        By, BytesPerSecond, Clock, Component, Delay, Disk, Duration, Failing, Failure, From, Jitter, Node,
        OneWay, Pattern, PerMille, Pod, PullDelay, SomeNodes, To, Volume, Webhook, With, WriteDelay,
    };
    match type_ {
        "Partition" => &[From, To, OneWay, Duration],
        "Latency" => &[From, To, OneWay, Delay, Jitter, Duration],
        "Loss" => &[From, To, OneWay, PerMille, Duration],
        "Rate" => &[From, To, OneWay, BytesPerSecond, Duration],
        "Refuse" => &[From, To, OneWay, With, Duration],
        "Crash" | "Pause" => &[Component, Duration],
        "PowerOff" => &[Node, Duration],
        "Disk" => &[Disk, Failure, WriteDelay, Duration],
        "VolumeFull" => &[Volume, Duration],
        "ClockSkew" => &[Clock, By, Duration],
        // An OOM kill is a single event and has no duration.
        "OutOfMemory" => &[Pod],
        "Webhook" => &[Webhook, Duration],
        "ImagePull" => &[SomeNodes, PullDelay, Failing, Pattern, Duration],
        _ => &[],
    }
}

impl Part {
    fn add(self, fields: &mut Fields) -> Input {
        let list = |of: &[&str]| of.iter().map(|&one| one.to_owned()).collect();
        let need = |label: &str, hint: &str| Field::text(label, "").hint(hint);
        let text = match self {
            Self::From => need("from", "node/NAME, pod/NAME, pods:LABEL=VALUE, 10.0.0.0/8"),
            Self::To => Field::text_or("to", "the other side; all others if empty"),
            Self::OneWay => {
                let field = Field::switch("one way").hint("only traffic from the first side to the other");
                return Input::Switch(fields.add(field));
            }
            Self::Component => need("part", "kubelet/NODE, scheduler, controllers, controller/NAME"),
            Self::Clock => need("clock of", "kubelet/NODE, node/NAME, scheduler, controllers"),
            Self::Node => need("node", "its name, or nodes:LABEL=VALUE"),
            Self::SomeNodes => Field::text_or("nodes", "a name, or nodes:LABEL=VALUE; all if empty"),
            Self::Disk => need("disk of", "a node's name, nodes:LABEL=VALUE, or store"),
            Self::Volume => need("volume", "claim/[NAMESPACE/]NAME, emptydir/[NAMESPACE/]POD/VOLUME"),
            Self::Pod => need("pod", "pod/[NAMESPACE/]NAME[/CONTAINER], pods:LABEL=VALUE"),
            Self::Webhook => need("webhook", "the name of its configuration"),
            Self::Delay => need("delay", "at least this long, such as 100ms"),
            Self::Jitter => Field::text_or("jitter", "up to this much more, at random, such as 20ms"),
            Self::PerMille => {
                return Input::Number(fields.add(Field::number("lost", "").hint("packets per thousand")));
            }
            Self::BytesPerSecond => {
                let field = Field::number("bytes", "").hint("per second, in each direction");
                return Input::Number(fields.add(field));
            }
            Self::With => {
                let field = Field::choice("with", list(REFUSALS)).picking("Reset");
                return Input::Choice(fields.add(field));
            }
            Self::Failure => {
                return Input::Choice(fields.add(Field::choice("failure", list(DISK_FAILURES))));
            }
            Self::WriteDelay => Field::text_or("delay", "of each write to a slow disk, such as 200ms"),
            Self::By => need("by", "such as 5m or -1h30m"),
            Self::PullDelay => Field::text_or("delay", "of each pull, such as 30s"),
            Self::Failing => {
                return Input::Switch(
                    fields.add(Field::switch("failing").hint("pulls fail after the delay")),
                );
            }
            Self::Pattern => Field::text_or("images", "only these, * matches any text; all if empty"),
            Self::Duration => Field::text_or("for", "such as 30s; if empty, until healed"),
        };
        Input::Text(fields.add(text))
    }

    /// Sets this part of a fault from the text of its field. Errors name the field.
    fn take(self, spec: &mut FaultSpec, entered: &str) -> Result<(), String> {
        let text = entered.trim();
        let given = || Some(text.to_owned()).filter(|text| !text.is_empty());
        match self {
            Self::From => spec.from = read_side(needed(text, "from")?)?,
            Self::To if text.is_empty() => {}
            Self::To => spec.to = read_side(text)?,
            Self::OneWay => spec.direction = (text == "on").then(|| "OneWay".to_owned()),
            Self::Component => spec.target = Some(read_target(needed(text, "part")?)?),
            Self::Clock => spec.target = Some(read_target(needed(text, "clock of")?)?),
            Self::Node => spec.target = Some(read_node(needed(text, "node")?)?),
            Self::SomeNodes => spec.target = given().map(|text| read_node(&text)).transpose()?,
            Self::Disk => spec.target = Some(read_disk(needed(text, "disk of")?)?),
            Self::Volume => spec.target = Some(read_volume(needed(text, "volume")?)?),
            Self::Pod => spec.target = Some(read_pods(needed(text, "pod")?)?),
            Self::Webhook => {
                let text = needed(text, "webhook")?;
                let name = text.strip_prefix("webhook/").unwrap_or(text);
                spec.target = Some(read_target(&format!("webhook/{name}"))?);
            }
            Self::Delay => {
                let delay = needed(text, "delay")?.to_owned();
                spec.latency = Some(FaultLatency { delay, jitter: None });
            }
            Self::Jitter => {
                if let Some(latency) = &mut spec.latency {
                    latency.jitter = given();
                }
            }
            Self::PerMille => {
                let per_mille = needed(text, "lost")?.parse().map_err(|_| format!("lost: {text}"))?;
                if !(0..=1000).contains(&per_mille) {
                    return Err("lost: at most 1000 packets per thousand".to_owned());
                }
                spec.loss = Some(FaultLoss { per_mille });
            }
            Self::BytesPerSecond => {
                let bytes_per_second =
                    needed(text, "bytes")?.parse().map_err(|_| format!("bytes: {text}"))?;
                spec.rate = Some(FaultRate { bytes_per_second });
            }
            Self::With => spec.refuse = Some(FaultRefuse { with: given() }),
            Self::Failure => spec.disk = Some(FaultDisk { failure: text.to_owned(), delay: None }),
            Self::WriteDelay => {
                let disk = spec.disk.get_or_insert_default();
                match (disk.failure == SLOW, text.is_empty()) {
                    (true, true) => return Err("delay: required for a slow disk".to_owned()),
                    (false, false) => return Err(format!("delay: not allowed for failure {}", disk.failure)),
                    (true, false) | (false, true) => disk.delay = given(),
                }
            }
            Self::By => spec.skew = Some(FaultSkew { by: needed(text, "by")?.to_owned() }),
            Self::PullDelay => spec.image = Some(FaultImage { delay: given(), ..FaultImage::default() }),
            Self::Failing => {
                let image = spec.image.get_or_insert_default();
                image.failing = (text == "on").then_some(true);
                if image.delay.is_none() && image.failing.is_none() {
                    return Err("set a delay, failing, or both".to_owned());
                }
            }
            Self::Pattern => spec.image.get_or_insert_default().pattern = given(),
            Self::Duration => {
                spec.duration = given();
                let refuses = spec.disk.as_ref().is_some_and(|disk| disk.failure != SLOW);
                let is_store = spec.target.as_ref().and_then(|target| target.component.as_deref());
                if refuses && is_store == Some(STORE) && spec.duration.is_none() {
                    return Err(
                        "for: required, because the store could not write the end of the fault".to_owned()
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns the text of a required field; an error if it is empty.
fn needed<'a>(text: &'a str, label: &str) -> Result<&'a str, String> {
    if text.is_empty() { Err(format!("{label}: required")) } else { Ok(text) }
}

/// Parses a pod by its name alone, or as a target.
fn read_pods(text: &str) -> Result<FaultTarget, String> {
    let is_target = text.starts_with("pod/") || text.starts_with("pods/") || text.starts_with("pods:");
    if is_target { read_target(text) } else { read_target(&format!("pod/{text}")) }
}

/// Creates the dialog for the type of a fault.
pub fn dialog() -> Dialog {
    let mut fields = Fields::default();
    let kind = fields.add(Field::choice("type", types().map(str::to_owned).collect()).hint("← → to pick"));
    Dialog::new("Add a fault", "Next", move |dialog, cx| {
        Ok(vec![Effect::dialog(form(cx, dialog.choice(kind)))])
    })
    .line("It ends after its duration, or when it is healed here.")
    .fields(fields)
    .notes(move |dialog, _| vec![Note::Plain(about(dialog.choice(kind)).to_owned())])
}

/// Creates the dialog for the parts of a fault of this type.
fn form(cx: &Context<'_>, type_: &str) -> Dialog {
    let type_ = type_.to_owned();
    let mut fields = Fields::default();
    let inputs: Vec<(Part, Input)> =
        parts(&type_).iter().map(|part| (*part, part.add(&mut fields))).collect();
    let (line, nodes) = (about(&type_), nodes(cx));
    let empty = FaultSpec { type_: type_.clone(), ..FaultSpec::default() };
    let (entered, empty_spec) = (inputs.clone(), empty.clone());
    let dialog = Dialog::new(format!("Add fault {type_}"), "Add", move |dialog, cx| {
        let mut spec = empty.clone();
        for (part, input) in &inputs {
            part.take(&mut spec, &input.entered(dialog)?)?;
        }
        let is_taken = |name: &str| cx.stores.of::<Fault>().by_name("", name).is_some();
        Ok(vec![Effect::Act(Box::new(create(&builtin_kinds::kind::<Fault>(), &spec, is_taken)))])
    })
    .line(line)
    .fields(fields)
    .notes(move |dialog, cx| {
        let mut spec = empty_spec.clone();
        // Fields that are not complete yet say nothing about the target.
        for (part, input) in &entered {
            let _ = input.entered(dialog).and_then(|entered| part.take(&mut spec, &entered));
        }
        missing_targets(&spec, cx).into_iter().map(Note::Warning).collect()
    });
    if nodes.is_empty() { dialog } else { dialog.line(nodes) }
}

/// Returns a warning for each node and pod that the fault names, and for each selector of nodes, that matches nothing
/// now: such a fault is accepted, but begins only when its target appears.
fn missing_targets(spec: &FaultSpec, cx: &Context<'_>) -> Vec<String> {
    let sides = spec.from.iter().chain(&spec.to);
    let target = spec.target.iter();
    let nodes = sides.clone().filter_map(|side| side.node.as_deref());
    let nodes = nodes.chain(target.clone().filter_map(|target| target.node.as_deref()));
    let selectors = sides.clone().filter_map(|side| side.node_selector.as_ref());
    let selectors = selectors.chain(target.clone().filter_map(|target| target.node_selector.as_ref()));
    let pods = sides.filter_map(|side| Some((side.namespace.as_deref(), side.pod.as_deref()?)));
    let pods =
        pods.chain(target.filter_map(|target| Some((target.namespace.as_deref(), target.pod.as_deref()?))));

    let mut missing = Vec::new();
    let known = cx.stores.of::<Node>();
    if known.synced() {
        let names = || known.iter().filter_map(|(_, node)| node.metadata.name.as_deref());
        for name in nodes.filter(|name| known.by_name("", name).is_none()) {
            missing.push(match nearest(name, names()) {
                Some(near) => format!("no node {name:?}; did you mean {near:?}?"),
                None => format!("no node {name:?}: {WAITS}"),
            });
        }
        let selects = |selector: &&LabelSelector| {
            let selector = Selector::from_field(selector);
            known.iter().any(|(_, node)| selector.matches(node.metadata.labels.as_ref()))
        };
        missing.extend(
            selectors
                .filter(|selector| !selects(selector))
                .map(|_| format!("no node has these labels: {WAITS}")),
        );
    }
    if cx.stores.pods().synced() {
        let pods = pods.map(|(namespace, name)| (namespace.unwrap_or("default"), name));
        let pods = pods.filter(|(namespace, name)| cx.stores.pods().by_name(namespace, name).is_none());
        missing.extend(pods.map(|(namespace, name)| format!("no pod {name:?} in {namespace}: {WAITS}")));
    }
    missing
}

/// Names the first nodes, as a hint for fields that take one: `Nodes: node-1, node-2, node-3 and 8 more.`
fn nodes(cx: &Context<'_>) -> String {
    let names = cx.stores.of::<Node>().iter().filter_map(|(_, node)| node.metadata.name.as_deref());
    let names: BTreeSet<&str> = names.collect();
    let first: Vec<&str> = names.iter().take(NODES).copied().collect();
    let more = match names.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if first.is_empty() { String::new() } else { format!("Nodes: {}{more}.", clean(&first.join(", "))) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Builds the fault from these texts, one for each part in order; missing ones are empty.
    fn spec(type_: &str, entered: &[&str]) -> Result<Value, String> {
        let mut spec = FaultSpec { type_: type_.to_owned(), ..FaultSpec::default() };
        for (at, part) in parts(type_).iter().enumerate() {
            part.take(&mut spec, entered.get(at).copied().unwrap_or_default())?;
        }
        Ok(serde_json::to_value(&spec).unwrap())
    }

    #[test]
    fn every_type_of_fault_is_made_with_what_it_needs_fault_1() {
        let of = |type_: &str, rest: Value| {
            let mut spec = json!({"type": type_});
            spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            spec
        };
        let cases = [
            (
                "Partition",
                vec!["pod/shop/web-0", "10.0.0.0/8", "on", "1m"],
                json!({"from": {"pod": "web-0", "namespace": "shop"}, "to": {"cidr": "10.0.0.0/8"},
                    "direction": "OneWay", "duration": "1m"}),
            ),
            (
                "Latency",
                vec!["node/a", "nodes:zone=b", "off", "100ms", "20ms"],
                json!({"from": {"node": "a"}, "to": {"nodeSelector": {"matchLabels": {"zone": "b"}}},
                    "latency": {"delay": "100ms", "jitter": "20ms"}}),
            ),
            ("Loss", vec!["node/a", "", "", "20"], json!({"from": {"node": "a"}, "loss": {"perMille": 20}})),
            (
                "Rate",
                vec!["node/a", "", "", "100000"],
                json!({"from": {"node": "a"}, "rate": {"bytesPerSecond": 100_000}}),
            ),
            (
                "Refuse",
                vec!["pods:app=web", "", "", "Prohibited"],
                json!({"from": {"podSelector": {"matchLabels": {"app": "web"}}}, "refuse": {"with": "Prohibited"}}),
            ),
            ("Crash", vec!["kubelet/a"], json!({"target": {"component": "kubelet", "node": "a"}})),
            (
                "Pause",
                vec!["controller/job", "5s"],
                json!({"target": {"component": "job"}, "duration": "5s"}),
            ),
            ("PowerOff", vec!["node-1", "30s"], json!({"target": {"node": "node-1"}, "duration": "30s"})),
            (
                "Disk",
                vec!["node-1", "Slow", "200ms"],
                json!({"target": {"node": "node-1"}, "disk": {"failure": "Slow", "delay": "200ms"}}),
            ),
            (
                "Disk",
                vec!["store", "Full", "", "10s"],
                json!({"target": {"component": "store"}, "disk": {"failure": "Full"}, "duration": "10s"}),
            ),
            (
                "VolumeFull",
                vec!["emptydir/shop/web/cache"],
                json!({"target": {"pod": "web", "volume": "cache", "namespace": "shop"}}),
            ),
            (
                "ClockSkew",
                vec!["scheduler", "-1h30m"],
                json!({"target": {"component": "scheduler"}, "skew": {"by": "-1h30m"}}),
            ),
            (
                "OutOfMemory",
                vec!["shop/web-0/app"],
                json!({"target": {"pod": "web-0", "namespace": "shop", "container": "app"}}),
            ),
            ("Webhook", vec!["checks"], json!({"target": {"webhook": "checks"}})),
            (
                "ImagePull",
                vec!["", "30s", "on", "nginx*"],
                json!({"image": {"delay": "30s", "failing": true, "pattern": "nginx*"}}),
            ),
        ];
        for (type_, entered, expected) in &cases {
            assert_eq!(spec(type_, entered).as_ref(), Ok(&of(type_, expected.clone())), "{type_}");
        }
        for type_ in types() {
            assert!(cases.iter().any(|(known, ..)| *known == type_), "{type_} is made nowhere");
            assert!(!about(type_).is_empty() && !parts(type_).is_empty(), "{type_}");
        }
        assert_eq!(types().count(), 14);
    }

    #[test]
    fn invalid_values_for_a_fault_type_are_reported_in_its_form_fault_1() {
        for (type_, entered, why) in [
            ("Partition", vec![""], "from: required"),
            ("Partition", vec!["web"], "invalid side"),
            ("Loss", vec!["node/a", "", "", "1001"], "at most 1000"),
            ("Latency", vec!["node/a"], "delay: required"),
            ("Crash", vec!["node-1"], "invalid target"),
            ("Disk", vec!["a", "Slow"], "required for a slow disk"),
            ("Disk", vec!["a", "Full", "1s"], "not allowed for failure Full"),
            ("Disk", vec!["store", "Failing", ""], "for: required"),
            ("ImagePull", vec!["", "", "off"], "set a delay, failing, or both"),
            ("OutOfMemory", vec![""], "pod: required"),
            ("Webhook", vec!["a/b"], ""),
        ] {
            match spec(type_, &entered) {
                Err(error) => assert!(error.contains(why), "{type_}: {error}"),
                Ok(spec) => assert!(why.is_empty(), "{type_}: {spec}"),
            }
        }
    }
}
