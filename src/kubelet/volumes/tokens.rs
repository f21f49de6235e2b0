//! The service account tokens in a pod's volumes: requested once, cached, and renewed in time (SA-1).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccountTokenProjection;

use base::clock::{saturating_after, since};

/// A token is never older than this when it is read.
const MAX_AGE: Duration = Duration::from_hours(24);
/// The interval at which a failed renewal is retried; the old token may still be valid.
const RENEW_RETRY: Duration = Duration::from_mins(1);

/// The parameters of a token: audience and seconds.
type TokenRequest = (String, Option<i64>);

#[derive(Clone, Debug)]
struct CachedToken {
    token: String,
    renew_at: Timestamp,
}

/// The tokens of one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens {
    cached: BTreeMap<TokenRequest, CachedToken>,
}

/// The time of a token's renewal: after 80 % of its life, and at least daily.
fn renewal(issued_at: Timestamp, expires_at: Timestamp) -> Timestamp {
    let life = since(expires_at, issued_at);
    saturating_after(issued_at, (life * 4 / 5).min(MAX_AGE))
}

impl Tokens {
    /// The token of a projection: the cached one, or a new one from `issue` when it is due.
    pub(super) fn token(
        &mut self,
        projection: &ServiceAccountTokenProjection,
        now: Timestamp,
        issue: impl FnOnce(Option<&str>, Option<i64>) -> Result<(String, Timestamp), String>,
    ) -> Result<String, String> {
        let request = (projection.audience.clone().unwrap_or_default(), projection.expiration_seconds);
        if let Some(held) = self.cached.get(&request).filter(|held| held.renew_at > now) {
            return Ok(held.token.clone());
        }
        match issue(projection.audience.as_deref(), projection.expiration_seconds) {
            Ok((token, expires_at)) => {
                let renew_at = renewal(now, expires_at);
                self.cached.insert(request, CachedToken { token: token.clone(), renew_at });
                Ok(token)
            }
            Err(error) => {
                if let Some(held) = self.cached.get_mut(&request) {
                    held.renew_at = saturating_after(now, RENEW_RETRY);
                }
                Err(format!("failed to fetch token: {error}"))
            }
        }
    }

    /// The time at which the volumes must be checked again.
    pub(crate) fn renew_at(&self) -> Option<Timestamp> {
        self.cached.values().map(|held| held.renew_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_is_reused_until_most_of_its_life_is_over_sa_1() {
        let mut tokens = Tokens::default();
        let projection = ServiceAccountTokenProjection {
            expiration_seconds: Some(600),
            path: "token".into(),
            ..ServiceAccountTokenProjection::default()
        };
        let mut requests = 0;
        let mut shown = Vec::new();
        for second in [0, 100, 479, 480, 900] {
            let token = tokens.token(&projection, at(second), |_, seconds| {
                requests += 1;
                Ok((format!("t{requests}"), at(second + seconds.unwrap())))
            });
            shown.push(token.unwrap());
        }
        assert_eq!(shown, ["t1", "t1", "t1", "t2", "t2"]);
        assert_eq!(tokens.renew_at(), Some(at(960)));
        let failed = tokens.token(&projection, at(960), |_, _| Err("no".into()));
        assert_eq!(failed, Err("failed to fetch token: no".into()));
        assert_eq!(tokens.renew_at(), Some(at(1020)), "tried again, not at once");
    }

    #[test]
    fn long_tokens_are_renewed_daily_sa_1() {
        assert_eq!(renewal(at(0), at(3600)), at(2880));
        assert_eq!(renewal(at(0), at(30 * 86400)), at(86400));
    }
}
