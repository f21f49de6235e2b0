//! Rules of the sources of volumes that other machines and drivers provide, for pods and persistent volumes.
//!
//! Both have the same fields under the same names, so one set of rules reads them as JSON. Sources that the kubelet
//! serves from the cluster's own objects are in `volumes`.

use serde_json::{Map, Value};

use super::field::{FieldErrors, Path};
use super::storage::driver_name;
use super::{names, paths};

/// A JSON object.
pub type Fields = Map<String, Value>;

/// The object that has the volume source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum VolumeParent<'a> {
    /// A pod.
    Pod {
        /// The name of the volume.
        volume: &'a str,
    },
    /// A persistent volume.
    PersistentVolume {
        /// Its name.
        name: &'a str,
    },
}

/// The sources of a pod's volume in the order in which Kubernetes checks them: the first one found counts.
pub(crate) const OF_PODS: &[&str] = &[
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI",
    "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
];

/// The sources of a persistent volume, in the same order.
pub(crate) const OF_PERSISTENT_VOLUMES: &[&str] = &[
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
];

/// The required fields of each source, which may not be empty.
const REQUIRED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
];

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

const PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";

/// The maximum size of a volume's name and its target portal together, including the colon between them.
const MAX_PORTAL: usize = 64;

/// Requires exactly one source, and validates it. Returns the source's field.
pub fn sources<'a>(
    errors: &mut FieldErrors,
    path: &Path<'_>,
    volume: &'a Fields,
    holder: VolumeParent<'_>,
) -> Option<&'a str> {
    let order = if matches!(holder, VolumeParent::Pod { .. }) { OF_PODS } else { OF_PERSISTENT_VOLUMES };
    let mut given = order.iter().filter_map(|field| volume.get_key_value(*field));
    let Some((first, source)) = given.next() else {
        errors.required(path, "must specify a volume type");
        return None;
    };
    for (other, _) in given {
        // The error has Kubernetes' spelling of these two fields.
        let field = match other.as_str() {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            field => field,
        };
        errors.forbidden(&path.child(field), "may not specify more than 1 volume type");
    }
    if let Value::Object(source) = source {
        self::source(errors, path, first, source, holder);
    }
    Some(first)
}

fn source(errors: &mut FieldErrors, path: &Path<'_>, field: &str, source: &Fields, holder: VolumeParent<'_>) {
    // Errors name this source differently.
    let at = path.child(if field == "gcePersistentDisk" { "persistentDisk" } else { field });
    let is_persistent = matches!(holder, VolumeParent::PersistentVolume { .. });
    for required in REQUIRED.iter().filter(|(of, _)| *of == field).flat_map(|(_, fields)| *fields) {
        if is_empty(source, required) {
            errors.required(&at.child(required), "");
        }
    }
    match field {
        "gitRepo" => paths::local(errors, &at.child("directory"), text(source, "directory")),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            // Kubernetes' error says from 1, although it accepts 0.
            within(
                errors,
                &at.child("partition"),
                source.get("partition"),
                "must be between 1 and 255, inclusive",
            );
        }
        "nfs" if !text(source, "path").starts_with('/') => {
            errors.invalid(&at.child("path"), text(source, "path"), "must be an absolute path");
        }
        "iscsi" => iscsi(errors, path, &at, source, holder),
        "fc" => fibre_channel(errors, &at, source),
        "flocker" => flocker(errors, &at, source),
        "glusterfs" if is_persistent => endpoints_namespace(errors, &at, source),
        "quobyte" => quobyte(errors, &at, source),
        "cinder" => secret_reference(errors, &at.child("secretRef"), source.get("secretRef"), is_persistent),
        "flexVolume" => flex_options(errors, &at.child("options"), source),
        "azureFile" if is_persistent && source.get("secretNamespace").is_some_and(|name| name == "") => {
            errors.required(&at.child("secretNamespace"), "");
        }
        "azureDisk" => azure_disk(errors, &at, source),
        "storageos" => {
            for field in ["volumeName", "volumeNamespace"] {
                let name = text(source, field);
                if !name.is_empty() {
                    errors.invalid_each(&at.child(field), name, names::dns_1123_label(name));
                }
            }
            secret_reference(errors, &at.child("secretRef"), source.get("secretRef"), is_persistent);
        }
        "csi" => csi(errors, &at, source, is_persistent),
        "image" => image(errors, &at, source),
        "local" => paths::backed(errors, &at.child("path"), text(source, "path")),
        _ => {}
    }
}

fn text<'a>(source: &'a Fields, field: &str) -> &'a str {
    source.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty(source: &Fields, field: &str) -> bool {
    match source.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    }
}

fn within(errors: &mut FieldErrors, path: &Path<'_>, number: Option<&Value>, detail: &str) {
    if let Some(number) = number.and_then(Value::as_i64).filter(|number| !(0..=255).contains(number)) {
        errors.invalid(path, &number, detail);
    }
}

fn lun(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    within(errors, &path.child("lun"), source.get("lun"), "must be between 0 and 255, inclusive");
}

/// Validates a reference to a Secret for a driver; that of a persistent volume includes the namespace.
fn secret_reference(errors: &mut FieldErrors, path: &Path<'_>, secret: Option<&Value>, with_namespace: bool) {
    let Some(Value::Object(secret)) = secret else { return };
    let fields: &[&str] = if with_namespace { &["name", "namespace"] } else { &["name"] };
    for field in fields.iter().filter(|field| is_empty(secret, field)) {
        errors.required(&path.child(field), "");
    }
}

fn iscsi(
    errors: &mut FieldErrors,
    volume: &Path<'_>,
    path: &Path<'_>,
    source: &Fields,
    holder: VolumeParent<'_>,
) {
    let portal = text(source, "targetPortal");
    let has_initiator = source.contains_key("initiatorName");
    let is_long = |name: &str| has_initiator && name.len() + 1 + portal.len() > MAX_PORTAL;
    if let VolumeParent::PersistentVolume { name } = holder
        && is_long(name)
    {
        errors.invalid(&path.child("targetportal"), portal, PORTAL);
    }
    let starting = match holder {
        VolumeParent::Pod { .. } => "must be valid format starting with iqn, eui, or naa",
        VolumeParent::PersistentVolume { .. } => "must be valid format",
    };
    let iqn = text(source, "iqn");
    if iqn.is_empty() {
        errors.required(&path.child("iqn"), "");
    } else {
        scsi_name(errors, &path.child("iqn"), iqn, starting);
    }
    lun(errors, path, source);
    let is_set = |field: &str| source.get(field) == Some(&Value::Bool(true));
    let secret = source.get("secretRef");
    if (is_set("chapAuthDiscovery") || is_set("chapAuthSession")) && secret.is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if matches!(holder, VolumeParent::PersistentVolume { .. }) {
        secret_reference(errors, &path.child("secretRef"), secret, false);
    }
    if has_initiator {
        scsi_name(errors, &path.child("initiatorname"), text(source, "initiatorName"), starting);
    }
    if let VolumeParent::Pod { volume: name } = holder
        && is_long(name)
    {
        errors.invalid(&volume.child("name"), name, PORTAL);
    }
}

/// Validates the name of an iSCSI node: `iqn.2001-04.com.example:storage`, or a number after `eui.` or `naa.`.
fn scsi_name(errors: &mut FieldErrors, path: &Path<'_>, name: &str, starting: &str) {
    let digits = |rest: &str, count: usize| {
        let mut rest = rest.chars();
        rest.next().is_some()
            && rest.clone().count() == count
            && rest.all(|character| character.is_ascii_alphanumeric())
    };
    let good = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => digits(&name[3..], 16),
        Some("naa") => digits(&name[3..], 32),
        _ => return errors.invalid(path, name, starting),
    };
    if !good {
        errors.invalid(path, name, "must be valid format");
    }
}

fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let Some((authority, unique)) = rest.split_once(':') else { return false };
    let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|c| c.is_ascii_digit());
    let is_part = |c: u8| c.is_ascii_alphanumeric() || b"-.".contains(&c);
    date.split_once('-').is_some_and(|(year, month)| is_number(year, 4) && is_number(month, 2))
        && !authority.is_empty()
        && authority.bytes().all(is_part)
        && !unique.is_empty()
        && !unique.bytes().any(|c| b",;*&$|".contains(&c) || c.is_ascii_whitespace())
}

fn fibre_channel(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    let names = path.child("targetWWNs");
    let has = |field| !is_empty(source, field);
    if !has("targetWWNs") && !has("wwids") {
        errors.required(&names, "must specify either targetWWNs or wwids, but not both");
    }
    if has("targetWWNs") && has("wwids") {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&names, &source["targetWWNs"], detail);
    }
    if !has("targetWWNs") {
        return;
    }
    if source.contains_key("lun") {
        lun(errors, path, source);
    } else {
        errors.required(&path.child("lun"), "lun is required if targetWWNs is specified");
    }
}

fn flocker(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    let name = text(source, "datasetName");
    match (name.is_empty(), is_empty(source, "datasetUUID")) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(path, "resource", detail);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

fn endpoints_namespace(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    if !source.contains_key("endpointsNamespace") {
        return;
    }
    let path = path.child("endpointsNamespace");
    match text(source, "endpointsNamespace") {
        "" => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.invalid(&path, "", detail);
        }
        name => errors.invalid_each(&path, name, names::dns_1123_label(name)),
    }
}

fn quobyte(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    const MAX_TENANT: usize = 64;
    let registry = text(source, "registry");
    let is_pair = |text: &str| {
        text.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'))
    };
    if registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if text(source, "tenant").len() > MAX_TENANT {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), detail);
    } else {
        for _ in registry.split(',').filter(|pair| !is_pair(pair)) {
            errors.invalid(&path.child("registry"), registry, PAIRS);
        }
    }
    if is_empty(source, "volume") {
        errors.required(&path.child("volume"), "");
    }
}

/// Refuses options of a flex volume with names that Kubernetes reserves for itself.
fn flex_options(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    let options = source.get("options").and_then(Value::as_object).into_iter().flatten();
    for (option, _) in options {
        let domain = option.split_once('/').map_or(option.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.key(option), option, detail);
        }
    }
}

fn azure_disk(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    for (field, supported) in
        [("cachingMode", &["None", "ReadOnly", "ReadWrite"]), ("kind", &["Dedicated", "Managed", "Shared"])]
    {
        if source.contains_key(field) {
            errors.one_of(&path.child(field), text(source, field), supported);
        }
    }
    let uri = text(source, "diskURI");
    let (start, form) = match source.get("kind").and_then(Value::as_str) {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.starts_with(start) {
        errors.unsupported(&path.child("diskURI"), uri, &[form]);
    }
}

fn csi(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields, is_persistent: bool) {
    driver_name(errors, &path.child("driver"), text(source, "driver"));
    if !is_persistent {
        let Some(Value::Object(secret)) = source.get("nodePublishSecretRef") else { return };
        match text(secret, "name") {
            "" => errors.required(&path.child("nodePublishSecretRef.name"), ""),
            name => errors.invalid_each(&path.child("name"), name, names::dns_1123_subdomain(name)),
        }
        return;
    }
    if is_empty(source, "volumeHandle") {
        errors.required(&path.child("volumeHandle"), "");
    }
    for field in [
        "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(Value::Object(secret)) = source.get(field) else { continue };
        let path = path.child(field);
        errors.required_name(&path.child("name"), text(secret, "name"), names::dns_1123_subdomain);
        errors.required_name(&path.child("namespace"), text(secret, "namespace"), names::dns_1123_label);
    }
}

/// Templates may omit the reference, since their users fill it in; pods may not.
fn image(errors: &mut FieldErrors, path: &Path<'_>, source: &Fields) {
    let policy = source.get("pullPolicy").and_then(Value::as_str);
    errors.required_one_of(&path.child("pullPolicy"), policy, PULL_POLICIES);
}
