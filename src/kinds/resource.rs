//! The strategy of a kind. Each built-in kind implements [`Resource`] in its own file. [`Strategy`] is its counterpart
//! without the type parameter, as in the API server's registry; custom resources implement it from their definitions.

use std::borrow::Cow;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::columns::{Column, ColumnDefinition, ColumnHead, RowCondition};
use apimachinery::Propagation;
use apimachinery::validate::{FieldErrors, names};
use object::quantity::ResourceList;
use object::{BuiltinKind, Kind, Object};

/// The pod that an object is or creates, for warnings and for pod security.
#[derive(Clone, Copy, Debug)]
pub struct PodShape<'a> {
    /// The path of its spec in the object.
    pub path: &'static str,
    /// The metadata of the pod, or of its template.
    pub metadata: Option<&'a ObjectMeta>,
    /// The spec of the pod.
    pub spec: &'a PodSpec,
}

impl<'a> PodShape<'a> {
    /// Returns the pod of a template; `path` is that of the template's spec.
    pub fn of(path: &'static str, template: &'a PodTemplateSpec) -> Option<Self> {
        Some(Self { path, metadata: template.metadata.as_ref(), spec: template.spec.as_ref()? })
    }
}

/// A built-in kind. Everything is a pure function of one object, or of its new and old version; rules that depend on
/// other objects (priorities, service accounts, addresses, quotas) belong to admission.
///
/// The default implementations are those of most kinds: no defaults, no rules beyond those of metadata, and the columns
/// name and age.
pub(crate) trait Resource: BuiltinKind {
    /// Validates a name and returns its errors.
    const NAME_RULE: fn(&str) -> Vec<String> = names::dns_1123_subdomain;
    /// An update of an object that does not exist creates it (Kubernetes' `AllowCreateOnUpdate`).
    const ALLOWS_CREATE_ON_UPDATE: bool = false;
    /// An update may leave out `metadata.resourceVersion` (Kubernetes' `AllowUnconditionalUpdate`).
    const ALLOWS_UNCONDITIONAL_UPDATE: bool = true;
    /// A new object keeps the status that the client sends.
    const KEEPS_STATUS_AT_CREATION: bool = false;
    /// The propagation policy if a client deletes an object over the API and names none, and the warning that the
    /// client gets.
    const DEFAULT_PROPAGATION: Option<(Propagation, Option<&'static str>)> = None;
    /// The columns of the table, each with its cell.
    const COLUMNS: &'static [Column<Self>] = &[Column::name(), Column::age()];
    /// The fields for field selectors, in addition to `metadata.name` and `metadata.namespace`.
    const SELECTABLE: &'static [SelectableField<Self>] = &[];
    /// The replica counts, if the kind can be scaled.
    const SCALE: Option<ScaleFields<Self>> = None;
    /// Quotas count the objects (`count/…`) if the kind is namespaced.
    const COUNTED: bool = true;
    /// Quotas count the objects by the bare plural, too, as they did before `count/…` existed.
    const COUNTED_BY_PLURAL: bool = false;
    /// A warning for clients that write an object of this kind.
    const WARNING: Option<&'static str> = None;
    /// A warning for all clients that use this kind, which Kubernetes has deprecated.
    const DEPRECATION: Option<&'static str> = None;

    /// Fills in defaults. Idempotent.
    fn apply_defaults(&mut self) {}

    /// Sets the fields of a new object that derive from its uid and name, and its first status. Runs once, after
    /// defaults and mutating admission.
    fn prepare_for_create(&mut self) {}

    /// Fills in fields that an update leaves out and that the API had set in the old version: addresses, ports, types.
    /// Runs before defaults. Clients that write whole objects leave these fields out without intending a change.
    fn carry_over(&mut self, _old: &Self) {}

    /// Updates fields that derive from changed fields. Runs after defaults and mutating admission.
    fn prepare_for_update(&mut self, _old: &Self) {}

    /// Adds the fields that Kubernetes' encoding of a status always has, even if they are empty: clients read them
    /// without a check.
    fn complete_status(&mut self) {}

    /// Validates an object by the rules for new and existing objects.
    fn validate(&self, _errors: &mut FieldErrors) {}

    /// Validates a new object.
    fn validate_create(&self, errors: &mut FieldErrors) {
        self.validate(errors);
    }

    /// Validates a new version of an object.
    fn validate_update(&self, _old: &Self, errors: &mut FieldErrors) {
        self.validate(errors);
    }

    /// Validates a new status. The spec is the old one.
    fn validate_status(&self, _old: &Self, _errors: &mut FieldErrors) {}

    /// Returns the condition by which printers recognize a finished object's row.
    fn row_condition(&self) -> Option<RowCondition> {
        None
    }

    /// Returns the pod that the object is or creates.
    fn pod(&self) -> Option<PodShape<'_>> {
        None
    }

    /// Returns the usage of resources that quotas have for this kind alone, such as `requests.cpu`.
    fn usage(&self, _now: Timestamp) -> ResourceList {
        ResourceList::new()
    }

    /// Returns whether [`Resource::usage`] may contain a resource with this name.
    fn uses(_resource: &str) -> bool {
        false
    }
}

impl<T: Resource> Column<T> {
    /// Returns the column of the container names in the pod template.
    pub(crate) const fn containers() -> Self {
        Self::text("Containers", "Names of each container in the template.", |object, _| {
            json!(of_containers(object, |c| Some(&c.name)))
        })
    }

    /// Returns the column of the container images in the pod template.
    pub(crate) const fn images() -> Self {
        Self::text("Images", "Images referenced by each container in the template.", |object, _| {
            json!(of_containers(object, |c| c.image.as_deref()))
        })
    }

    /// Returns the column of the selector of the object's pods.
    pub(crate) const fn selector(cell: fn(&T, Timestamp) -> Value) -> Self {
        Self::wide("Selector", "Label selector for the pods of the object.", cell)
    }
}

fn of_containers<T: Resource>(object: &T, part: fn(&Container) -> Option<&str>) -> String {
    let containers = object.pod().map_or(&[][..], |pod| &pod.spec.containers);
    containers.iter().map(|c| part(c).unwrap_or_default()).collect::<Vec<_>>().join(",")
}

/// A field for the field selectors of lists and watches.
pub(crate) struct SelectableField<T> {
    /// The field's path in selectors.
    pub path: &'static str,
    /// Returns the field's text; empty if it is absent.
    pub text: for<'a> fn(&'a T) -> Cow<'a, str>,
}

/// Creates a selectable field.
pub(crate) const fn selectable<T>(
    path: &'static str,
    text: for<'a> fn(&'a T) -> Cow<'a, str>,
) -> SelectableField<T> {
    SelectableField { path, text }
}

/// Returns the value of an optional text for field selectors.
pub(crate) fn text(field: Option<&String>) -> Cow<'_, str> {
    Cow::Borrowed(field.map_or("", String::as_str))
}

/// Returns the value of an optional flag for field selectors.
pub(crate) fn flag(field: Option<bool>) -> Cow<'static, str> {
    Cow::Borrowed(if field == Some(true) { "true" } else { "false" })
}

/// Reads and sets the replica counts of a kind.
#[derive(Clone, Copy)]
pub(crate) struct ScaleFields<T> {
    /// Reads the replica counts.
    pub get: fn(&T) -> Replicas,
    /// Sets the desired number of replicas.
    pub set: fn(&mut T, i32),
}

/// The replica counts of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// The desired number; `None` means one.
    pub desired: Option<i32>,
    /// The actual number.
    pub current: i32,
    /// The selector of the counted pods, as text.
    pub selector: String,
}

/// The strategy of a kind, without its type. Leaves objects of other kinds unchanged.
pub trait Strategy: Send + Sync {
    /// Returns the validation of names, which returns the errors of a name.
    fn name_rule(&self) -> fn(&str) -> Vec<String> {
        names::dns_1123_subdomain
    }
    /// Returns true if a new object keeps the status that the client sends.
    fn keeps_status_at_creation(&self) -> bool {
        false
    }
    /// Returns true if the kind's status, if it has one, is a subresource.
    fn has_status(&self) -> bool {
        true
    }
    /// Returns the propagation policy if a client deletes an object over the API and names none, and the warning that the
    /// client gets.
    fn default_propagation(&self) -> Option<(Propagation, Option<&'static str>)> {
        None
    }
    /// Returns true if quotas count the objects (`count/…`), provided that the kind is namespaced.
    fn is_counted(&self) -> bool {
        true
    }
    /// Returns true if quotas count the objects by the bare plural, too, as they did before `count/…` existed.
    fn is_counted_by_plural(&self) -> bool {
        false
    }
    /// Returns whether an update of an object that does not exist creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }
    /// Returns whether an update may leave out `metadata.resourceVersion`.
    fn allows_unconditional_update(&self) -> bool {
        true
    }
    /// Returns the warning for clients that write an object of this kind.
    fn warning(&self) -> Option<&str> {
        None
    }
    /// Returns the warning for all clients that use this version of this kind.
    fn deprecation(&self) -> Option<&str> {
        None
    }
    /// Fills in defaults. Idempotent.
    fn apply_defaults(&self, _object: &mut Object) {}
    /// Sets the fields of a new object that derive from its uid and name, and its first status.
    fn prepare_for_create(&self, _object: &mut Object) {}
    /// Fills in fields that an update leaves out and that the API had set in the old version.
    fn carry_over(&self, _new: &mut Object, _old: &Object) {}
    /// Updates fields that derive from changed fields.
    fn prepare_for_update(&self, _new: &mut Object, _old: &Object) {}
    /// Adds the fields that Kubernetes' encoding of a status always has, even if they are empty.
    fn complete_status(&self, _object: &mut Object) {}
    /// Returns whether both versions have the same desired state. Changes of it increment `metadata.generation`.
    fn same_spec(&self, new: &Object, old: &Object) -> bool {
        new.same_spec(old)
    }
    /// Validates a new object.
    fn validate_create(&self, _object: &Object, _errors: &mut FieldErrors) {}
    /// Validates a new version of an object.
    fn validate_update(&self, _new: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Validates a new status. The spec is the old one.
    fn validate_status(&self, _new: &Object, _old: &Object, _errors: &mut FieldErrors) {}
    /// Returns the columns of the table.
    fn columns(&self) -> Vec<ColumnDefinition>;
    /// Returns the cells of an object's row, one for each column.
    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value>;
    /// Returns the condition by which printers recognize a finished object's row.
    fn row_condition(&self, _object: &Object) -> Option<RowCondition> {
        None
    }
    /// Returns the fields for field selectors, in addition to `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the text of a selectable field; empty if the field is absent or unknown.
    fn field<'a>(&self, _object: &'a Object, _path: &str) -> Cow<'a, str> {
        "".into()
    }
    /// Returns the replica counts; `None` if the kind cannot be scaled.
    fn replicas(&self, _object: &Object) -> Option<Replicas> {
        None
    }
    /// Sets the desired number of replicas.
    fn set_replicas(&self, _object: &mut Object, _count: i32) {}
    /// Returns the pod that the object is or creates.
    fn pod<'a>(&self, _object: &'a Object) -> Option<PodShape<'a>> {
        None
    }
    /// Returns the usage of resources that quotas have for this kind alone, such as `requests.cpu`.
    fn usage(&self, _object: &Object, _now: Timestamp) -> ResourceList {
        ResourceList::new()
    }
    /// Returns whether [`Strategy::usage`] may contain a resource with this name.
    fn uses(&self, _resource: &str) -> bool {
        false
    }
}

/// The strategy of a built-in kind.
struct BuiltIn<T>(PhantomData<fn() -> T>);

impl<T: Resource> Strategy for BuiltIn<T> {
    fn name_rule(&self) -> fn(&str) -> Vec<String> {
        T::NAME_RULE
    }

    fn allows_create_on_update(&self) -> bool {
        T::ALLOWS_CREATE_ON_UPDATE
    }

    fn allows_unconditional_update(&self) -> bool {
        T::ALLOWS_UNCONDITIONAL_UPDATE
    }

    fn keeps_status_at_creation(&self) -> bool {
        T::KEEPS_STATUS_AT_CREATION
    }

    fn default_propagation(&self) -> Option<(Propagation, Option<&'static str>)> {
        T::DEFAULT_PROPAGATION
    }

    fn is_counted(&self) -> bool {
        T::COUNTED
    }

    fn is_counted_by_plural(&self) -> bool {
        T::COUNTED_BY_PLURAL
    }

    fn warning(&self) -> Option<&str> {
        T::WARNING
    }

    fn deprecation(&self) -> Option<&str> {
        T::DEPRECATION
    }

    fn apply_defaults(&self, object: &mut Object) {
        if let Some(value) = object.get_mut::<T>() {
            value.apply_defaults();
        }
    }

    fn prepare_for_create(&self, object: &mut Object) {
        if let Some(value) = object.get_mut::<T>() {
            value.prepare_for_create();
        }
    }

    fn carry_over(&self, new: &mut Object, old: &Object) {
        if let (Some(new), Some(old)) = (new.get_mut::<T>(), old.get::<T>()) {
            new.carry_over(old);
        }
    }

    fn prepare_for_update(&self, new: &mut Object, old: &Object) {
        if let (Some(new), Some(old)) = (new.get_mut::<T>(), old.get::<T>()) {
            new.prepare_for_update(old);
        }
    }

    fn complete_status(&self, object: &mut Object) {
        if let Some(value) = object.get_mut::<T>() {
            value.complete_status();
        }
    }

    fn validate_create(&self, object: &Object, errors: &mut FieldErrors) {
        if let Some(value) = object.unpacked().get::<T>() {
            value.validate_create(errors);
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        if let (Some(new), Some(old)) = (new.unpacked().get::<T>(), old.unpacked().get::<T>()) {
            new.validate_update(old, errors);
        }
    }

    fn validate_status(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        if let (Some(new), Some(old)) = (new.get::<T>(), old.get::<T>()) {
            new.validate_status(old, errors);
        }
    }

    fn columns(&self) -> Vec<ColumnDefinition> {
        ColumnHead::definitions(&mut T::COLUMNS.iter().map(|column| &column.head))
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let Some(value) = object.get::<T>() else { return Vec::new() };
        T::COLUMNS.iter().map(|column| column.cell(value, now)).collect()
    }

    fn row_condition(&self, object: &Object) -> Option<RowCondition> {
        object.get::<T>()?.row_condition()
    }

    fn selectable_fields(&self) -> Vec<String> {
        T::SELECTABLE.iter().map(|field| field.path.to_string()).collect()
    }

    fn field<'a>(&self, object: &'a Object, path: &str) -> Cow<'a, str> {
        let field = T::SELECTABLE.iter().find(|field| field.path == path);
        match (field, object.get::<T>()) {
            (Some(field), Some(value)) => (field.text)(value),
            _ => "".into(),
        }
    }

    fn replicas(&self, object: &Object) -> Option<Replicas> {
        Some((T::SCALE?.get)(object.get::<T>()?))
    }

    fn set_replicas(&self, object: &mut Object, count: i32) {
        if let (Some(scale), Some(value)) = (T::SCALE, object.get_mut::<T>()) {
            (scale.set)(value, count);
        }
    }

    fn pod<'a>(&self, object: &'a Object) -> Option<PodShape<'a>> {
        object.get::<T>()?.pod()
    }

    fn usage(&self, object: &Object, now: Timestamp) -> ResourceList {
        object.get::<T>().map(|value| value.usage(now)).unwrap_or_default()
    }

    fn uses(&self, resource: &str) -> bool {
        T::uses(resource)
    }
}

macro_rules! strategies {
    ($($kind:ident($ty:ty) $shape:ident)*) => {
        /// Returns the strategy of a built-in kind; `None` for custom kinds, since their strategies differ between
        /// clusters.
        pub(crate) fn built_in(kind: Kind) -> Option<&'static dyn Strategy> {
            use k8s_openapi::api::{
                admissionregistration, apps, autoscaling, batch, certificates, coordination, core, discovery,
                flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
            };
            use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
            use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
            use object::pod_preset;
            static STRATEGIES: &[&dyn Strategy] = &[$(&BuiltIn::<$ty>(PhantomData)),*];
            STRATEGIES.get(kind.index()).copied()
        }
    };
}
object::each_built_in!(strategies);
