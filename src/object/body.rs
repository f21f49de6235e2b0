//! The typed content of objects, and the Rust types of kinds.

use std::fmt;

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, certificates, coordination, core, discovery,
    flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;

use super::custom::CustomObject;
use super::encode;
use super::{Kind, part, pod_preset};
use base::json;

/// A Rust type of a kind: of a built-in kind ([`BuiltinKind`]), or of a custom resource ([`CustomKind`](super::CustomKind)).
pub trait TypedKind:
    Clone + fmt::Debug + PartialEq + serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static
{
    /// Returns the kind of this type.
    fn kind() -> Kind;
    /// Returns the version of this type, such as `v1`.
    fn version() -> &'static str;
    /// Returns the metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Returns the metadata, for changing.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
    /// Returns the value if it is of this type.
    fn from_body(body: &Body) -> Option<&Self>;
    /// Changes the value if it is of this type, and returns the result of `change`.
    fn change_body<R>(body: &mut Body, change: impl FnOnce(&mut Self) -> R) -> Option<R>;
    /// Wraps the value.
    fn into_body(self) -> Body;
    /// Reads the value from JSON. The code that reads all fields of all kinds is only in this crate, and not in every
    /// crate that reads objects.
    fn decode(value: serde_json::Value) -> serde_json::Result<Self>
    where
        Self: Sized;
    /// Returns the value as JSON. Like [`TypedKind::decode`], the code is only in this crate.
    fn to_value(&self) -> serde_json::Value;
    /// Returns the value's JSON text.
    fn encode(&self) -> Vec<u8>;
}

/// A Rust type of a built-in kind, which objects of the kind hold. A custom resource holds JSON, so that its typed value
/// can be read in place, but is changed only by [`Object::change`](super::Object::change).
pub trait BuiltinKind: TypedKind {
    /// Returns the value, for changes, if it is of this type.
    fn from_body_mut(body: &mut Body) -> Option<&mut Self>;
}

macro_rules! bodies {
    ($($kind:ident($ty:ty) $shape:ident)*) => {
        /// The typed content of an object.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "one variant a kind of the table, documented there, and one for all others")]
        pub enum Body {
            $($kind(Box<$ty>),)*
            Custom(Box<CustomObject>),
        }

        impl Body {
            /// Returns the kind.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* Self::Custom(o) => o.kind(), }
            }

            /// Returns the object's metadata.
            pub fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                match self { $(Self::$kind(o) => &o.metadata,)* Self::Custom(o) => &o.metadata, }
            }

            /// Returns the object's metadata, for changing.
            pub fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                match self { $(Self::$kind(o) => &mut o.metadata,)* Self::Custom(o) => &mut o.metadata, }
            }

            /// Returns the content for serializers, which are not compiled for each kind.
            pub(super) fn erased(&self) -> &dyn erased_serde::Serialize {
                match self { $(Self::$kind(o) => o.as_ref(),)* Self::Custom(o) => o.as_ref(), }
            }

            pub(super) fn copy_status_from(&mut self, other: &Self) {
                match (self, other) {
                    $((Self::$kind(to), Self::$kind(from)) => copy_status!($shape, to, from),)*
                    (Self::Custom(to), Self::Custom(from)) => to.copy_status_from(from),
                    _ => {}
                }
            }

            pub(super) fn copy_spec_from(&mut self, other: &Self) {
                match (self, other) {
                    $((Self::$kind(to), Self::$kind(from)) => copy_spec!($shape, to, from),)*
                    (Self::Custom(to), Self::Custom(from)) => to.copy_spec_from(from),
                    _ => {}
                }
            }

            pub(super) fn same_spec(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$kind(a), Self::$kind(b)) => same_spec!($shape, a, b),)*
                    (Self::Custom(a), Self::Custom(b)) => a.same_spec(b),
                    _ => false,
                }
            }

            pub(super) fn clear_status(&mut self) {
                match self {
                    $(Self::$kind(o) => clear_status!($shape, o),)*
                    Self::Custom(o) => o.clear_status(),
                }
            }

            pub(super) fn decode(kind: Kind, value: serde_json::Value) -> serde_json::Result<Self> {
                match kind {
                    $(Kind::$kind => <$ty>::decode(value).map(|o| Self::$kind(Box::new(o))),)*
                    custom => CustomObject::decode(custom, value).map(|o| Self::Custom(Box::new(o))),
                }
            }
        }

        $(impl TypedKind for $ty {
            fn kind() -> Kind {
                Kind::$kind
            }
            fn version() -> &'static str {
                Kind::$kind.info().version
            }
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
            fn from_body(body: &Body) -> Option<&Self> {
                match body { Body::$kind(o) => Some(o), _ => None }
            }
            fn change_body<R>(body: &mut Body, change: impl FnOnce(&mut Self) -> R) -> Option<R> {
                Self::from_body_mut(body).map(change)
            }
            fn into_body(self) -> Body { Body::$kind(Box::new(self)) }
            fn decode(value: serde_json::Value) -> serde_json::Result<Self> {
                Ok(json::from_value(value)?)
            }
            fn to_value(&self) -> serde_json::Value {
                part::to_value(self)
            }
            fn encode(&self) -> Vec<u8> {
                encode::text(self)
            }
        }

        impl BuiltinKind for $ty {
            fn from_body_mut(body: &mut Body) -> Option<&mut Self> {
                match body { Body::$kind(o) => Some(o), _ => None }
            }
        })*
    };
}

// The parts that each shape of kind has: see the Kind table.
macro_rules! copy_status {
    (SpecStatus, $to:ident, $from:ident) => {
        $to.status.clone_from(&$from.status)
    };
    (Generations, $to:ident, $from:ident) => {
        $to.status.clone_from(&$from.status)
    };
    ($other:ident, $to:ident, $from:ident) => {{
        let _ = ($to, $from);
    }};
}
macro_rules! copy_spec {
    (Plain, $to:ident, $from:ident) => {{
        let metadata = std::mem::take(&mut $to.metadata);
        $to.clone_from($from);
        $to.metadata = metadata;
    }};
    (PlainGenerations, $to:ident, $from:ident) => {
        copy_spec!(Plain, $to, $from)
    };
    ($other:ident, $to:ident, $from:ident) => {
        $to.spec.clone_from(&$from.spec)
    };
}
macro_rules! same_spec {
    (Plain, $a:ident, $b:ident) => {{
        let _ = ($a, $b);
        true
    }};
    (PlainGenerations, $a:ident, $b:ident) => {
        $a.webhooks == $b.webhooks
    };
    ($other:ident, $a:ident, $b:ident) => {
        $a.spec == $b.spec
    };
}
macro_rules! clear_status {
    (SpecStatus, $o:ident) => {
        $o.status = None
    };
    (Generations, $o:ident) => {
        $o.status = None
    };
    ($other:ident, $o:ident) => {{
        let _ = $o;
    }};
}
each_built_in!(bodies);
