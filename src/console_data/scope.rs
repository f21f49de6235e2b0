//! The namespaces that the console shows.

/// The namespaces in scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All of them.
    All,
    /// One.
    One(String),
}

impl Scope {
    /// Reports whether an object of this namespace is in scope; cluster-wide objects always are.
    pub fn holds(&self, namespace: Option<&str>) -> bool {
        match (self, namespace) {
            (Self::All, _) | (_, None) => true,
            (Self::One(own), Some(namespace)) => own == namespace,
        }
    }

    /// Returns `all`, or the name of the namespace.
    pub fn label(&self) -> &str {
        match self {
            Self::All => "all",
            Self::One(name) => name,
        }
    }
}
