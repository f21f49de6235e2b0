//! Impersonation: the user needs the permission for every part of the identity that the headers name.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use api::authorization::{Attributes, RequestTarget, ResourceAttributes};
use api::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User};
use api::{Api, ApiError};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The group of impersonated attributes other than user and group names.
const IDENTITY: &str = "authentication.k8s.io";

/// The identity that the headers name.
#[derive(Debug, Default)]
struct ImpersonatedUser {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Returns the effective user: the one that the headers name, if `user` may impersonate it; else `user`.
pub(super) fn acting(api: &Api, user: User, headers: &HeaderMap) -> Result<User, ApiError> {
    let Some(impersonated) = impersonated_user(headers)? else { return Ok(user) };
    let may = |group, resource, subresource, namespace, name| {
        let on = ResourceAttributes { group, resource, subresource, name, namespace, ..Default::default() };
        api.authorize(&Attributes { user: &user, verb: "impersonate", on: RequestTarget::Resource(on) })
    };
    let account = account(&impersonated.user);
    match account {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &impersonated.user)?,
    }
    for group in &impersonated.groups {
        may("", "groups", "", "", group)?;
    }
    for (key, values) in &impersonated.extra {
        for value in values {
            may(IDENTITY, "userextras", key, "", value)?;
        }
    }
    if !impersonated.uid.is_empty() {
        may(IDENTITY, "uids", "", "", &impersonated.uid)?;
    }
    let mut groups = impersonated.groups;
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let known = groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if !known {
        groups.push(if impersonated.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED }.into());
    }
    let uid = Some(impersonated.uid).filter(|uid| !uid.is_empty());
    Ok(User { uid, extra: impersonated.extra, ..User::named(impersonated.user, groups) })
}

/// Returns true if the headers name another identity.
pub(super) fn is_requested(headers: &HeaderMap) -> bool {
    headers.contains_key(USER)
}

/// Returns the namespace and name of a service account from its user name.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

fn impersonated_user(headers: &HeaderMap) -> Result<Option<ImpersonatedUser>, ApiError> {
    let mut impersonated = ImpersonatedUser::default();
    let mut any = false;
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with("impersonate-") {
            continue;
        }
        // An unreadable value is refused; ignored, the request would run as the caller.
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| ApiError::BadRequest(format!("the header {name} is not valid UTF-8")))?;
        let value = value.to_string();
        match name {
            USER => impersonated.user = value,
            GROUP => impersonated.groups.push(value),
            UID => impersonated.uid = value,
            name => match name.strip_prefix(EXTRA) {
                Some(key) => {
                    let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
                    impersonated.extra.entry(key).or_default().push(value);
                }
                None => continue,
            },
        }
        any = true;
    }
    if !any {
        return Ok(None);
    }
    if impersonated.user.is_empty() {
        return Err(ApiError::Internal(
            "groups, extra or a uid cannot be impersonated without a user name".into(),
        ));
    }
    Ok(Some(impersonated))
}
