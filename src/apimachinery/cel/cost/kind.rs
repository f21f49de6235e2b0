//! The types of expressions, as far as costs depend on them.

use std::rc::Rc;

use crate::cel::decl_type::{DeclType, DeclTypeKind, KEY};

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Kind<'d> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Time,
    Duration,
    List(Rc<Kind<'d>>),
    /// Key and value types.
    Map(Rc<(Kind<'d>, Kind<'d>)>),
    Object(&'d DeclType),
    Optional(Rc<Kind<'d>>),
    /// A type of an extension library: `quantity`, `semver`, `url`, `ip`, `cidr`, `format`.
    Extension(&'static str),
}

impl<'d> Kind<'d> {
    pub(super) fn of(declared: &'d DeclType) -> Self {
        match &declared.kind {
            DeclTypeKind::Dyn => Self::Dyn,
            DeclTypeKind::Bool => Self::Bool,
            DeclTypeKind::Int => Self::Int,
            DeclTypeKind::Double => Self::Double,
            DeclTypeKind::Text => Self::Text,
            DeclTypeKind::Bytes => Self::Bytes,
            DeclTypeKind::Time => Self::Time,
            DeclTypeKind::Duration => Self::Duration,
            DeclTypeKind::List(item) => Self::list(Self::of(item)),
            DeclTypeKind::Map(value) => Self::map(Self::of(&KEY), Self::of(value)),
            DeclTypeKind::Object(_) => Self::Object(declared),
        }
    }

    pub(super) fn list(item: Self) -> Self {
        Self::List(Rc::new(item))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Rc::new((key, value)))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Rc::new(of))
    }

    /// Returns true if all values of the type have the same size.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Int | Self::Uint | Self::Double | Self::Time | Self::Duration => true,
            Self::Optional(of) => of.is_scalar(),
            _ => false,
        }
    }

    pub(super) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn)
    }

    pub(super) fn is_letters(&self) -> bool {
        matches!(self, Self::Text | Self::Bytes)
    }

    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Returns the type of a field.
    pub(super) fn field(&self, name: &str) -> Self {
        match self {
            Self::Object(declared) => declared.field(name).map_or(Self::Dyn, Kind::of),
            Self::Map(both) => both.1.clone(),
            Self::Optional(of) => Self::optional(of.field(name)),
            _ => Self::Dyn,
        }
    }

    /// Returns the type of an item or value.
    pub(super) fn element(&self) -> Self {
        match self {
            Self::List(item) => (**item).clone(),
            Self::Map(both) => both.1.clone(),
            Self::Optional(of) => of.element(),
            _ => Self::Dyn,
        }
    }

    /// Returns the type of its keys, or of list indexes.
    pub(super) fn key(&self) -> Self {
        match self {
            Self::List(_) => Self::Int,
            Self::Map(both) => both.0.clone(),
            Self::Object(_) => Self::Text,
            _ => Self::Dyn,
        }
    }
}
