//! Clients of a test's cluster: whose requests are whose.

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
    /// The owner of the cluster, who may do everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Under this name: [`Requests::from`](super::Requests::from) tells clients by it, and the fields they write are owned
    /// by it.
    #[must_use]
    pub fn user_agent(self, name: impl Into<String>) -> Self {
        Self { user_agent: Some(name.into()), ..self }
    }

    /// As this user, who may do what roles allow (`kubectl --as`).
    #[must_use]
    pub fn user(self, name: impl Into<String>) -> Self {
        Self { user: Some(name.into()), ..self }
    }

    /// As this service account, which may do what roles allow: that of the operator under test, to see whether its roles
    /// are enough.
    #[must_use]
    pub fn service_account(self, namespace: &str, name: &str) -> Self {
        self.user(format!("system:serviceaccount:{namespace}:{name}"))
    }

    /// As a member of this group too.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.groups.push(name.into());
        self
    }

    /// The headers of each of its requests.
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
