//! The identities of clients of a test's cluster.

use http::header::{HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use super::error::Error;

/// The identity of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    user_agent: Option<String>,
    user: Option<String>,
    groups: Vec<String>,
}

impl ClientOptions {
    /// The cluster's administrator, with all permissions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the client's `User-Agent`. [`Requests::from`](super::Requests::from) selects requests by this name, and it
    /// becomes the manager of the fields that the client writes.
    #[must_use]
    pub fn user_agent(self, name: impl Into<String>) -> Self {
        Self { user_agent: Some(name.into()), ..self }
    }

    /// Impersonates this user, with the permissions of its roles (`kubectl --as`).
    #[must_use]
    pub fn user(self, name: impl Into<String>) -> Self {
        Self { user: Some(name.into()), ..self }
    }

    /// Impersonates this service account, with the permissions of its roles. With the account of the operator under
    /// test, a test shows if the operator's roles are sufficient.
    #[must_use]
    pub fn service_account(self, namespace: &str, name: &str) -> Self {
        self.user(format!("system:serviceaccount:{namespace}:{name}"))
    }

    /// Makes the impersonated user a member of this group, too.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.groups.push(name.into());
        self
    }

    /// Returns the headers of each of the client's requests.
    pub(super) fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, text: &str| {
            let value = HeaderValue::from_str(text).map_err(|_| Error::Header(text.into()))?;
            headers.append(name, value);
            Ok(())
        };
        if let Some(agent) = &self.user_agent {
            add(USER_AGENT, agent)?;
        }
        if let Some(user) = &self.user {
            add(HeaderName::from_static("impersonate-user"), user)?;
        }
        for group in &self.groups {
            add(HeaderName::from_static("impersonate-group"), group)?;
        }
        Ok(headers)
    }
}
