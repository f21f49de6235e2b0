//! Priority levels: each has a share of the server's capacity for its requests (`apiserver::flow_control`). `default_flows` has
//! those of every cluster.

use k8s_openapi::api::flowcontrol::v1::{
    LimitResponse, LimitedPriorityLevelConfiguration, PriorityLevelConfiguration, QueuingConfiguration,
};
use serde_json::{Value, json};

use super::columns::{Column, NONE};
use super::default_flows;
use super::flow_schema::condition_types;
use super::resource::Resource;
use apimachinery::default::set;
use apimachinery::validate::{FieldErrors, Path};

/// The maximum number of queues.
const MAX_QUEUES: i32 = 10_000_000;
/// The maximum number of bits of a flow's hash that shuffle sharding may use.
const MAX_ENTROPY_BITS: u32 = 60;

/// The annotation by which v1beta3 expressed zero shares; later versions have them in the field.
const OLD_ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const EXEMPT: &str = "Exempt";
const LIMITED: &str = "Limited";

impl Resource for PriorityLevelConfiguration {
    const COLUMNS: &'static [Column<Self>] = &[
        Column::name(),
        Column::text("Type", "Whether requests of this level are limited.", |level, _| {
            json!(level.spec.type_)
        }),
        Column::text("NominalConcurrencyShares", "The level's nominal share of all seats.", |level, _| {
            let shares = level.spec.limited.as_ref().map(|limited| limited.nominal_concurrency_shares);
            shares.map_or_else(|| json!(NONE), |shares| json!(shares.unwrap_or(0)))
        }),
        Column::text("Queues", "The number of queues.", |level, _| queuing_cell(level, |q| q.queues)),
        Column::text(
            "HandSize",
            "The number of queues of which a request takes the shortest.",
            |level, _| queuing_cell(level, |q| q.hand_size),
        ),
        Column::text("QueueLengthLimit", "The maximum number of requests in a queue.", |level, _| {
            queuing_cell(level, |q| q.queue_length_limit)
        }),
        Column::age(),
    ];

    fn apply_defaults(&mut self) {
        if let Some(exempt) = &mut self.spec.exempt {
            set(&mut exempt.nominal_concurrency_shares, 0);
            set(&mut exempt.lendable_percent, 0);
        }
        if self.spec.type_ == EXEMPT && self.spec.exempt.is_none() {
            let exempt = self.spec.exempt.get_or_insert_default();
            (exempt.nominal_concurrency_shares, exempt.lendable_percent) = (Some(0), Some(0));
        }
        if let Some(limited) = &mut self.spec.limited {
            set(&mut limited.nominal_concurrency_shares, 30);
            set(&mut limited.lendable_percent, 0);
            if let Some(queuing) = &mut limited.limit_response.queuing {
                for (field, default) in [
                    (&mut queuing.hand_size, 8),
                    (&mut queuing.queues, 64),
                    (&mut queuing.queue_length_limit, 50),
                ] {
                    if field.unwrap_or(0) == 0 {
                        *field = Some(default);
                    }
                }
            }
        }
    }

    fn complete_status(&mut self) {
        self.status.get_or_insert_default();
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let path = Path::root("spec");
        let spec = &self.spec;
        if (name == default_flows::EXEMPT) != (spec.type_ == EXEMPT) {
            let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
            errors.invalid(&path.child("type"), &spec.type_, detail);
        }
        match spec.type_.as_str() {
            EXEMPT => {
                if spec.limited.is_some() {
                    errors.forbidden(&path.child("limited"), "must be nil if the type is not Limited");
                }
                let exempt = spec.exempt.as_ref();
                shares(errors, &path.child("exempt"), exempt.and_then(|e| e.nominal_concurrency_shares));
                lendable(errors, &path.child("exempt"), exempt.and_then(|e| e.lendable_percent));
            }
            LIMITED => {
                if spec.exempt.is_some() {
                    errors.forbidden(&path.child("exempt"), "must be nil if the type is Limited");
                }
                let path = path.child("limited");
                match &spec.limited {
                    Some(limited) => self::limited(errors, &path, limited),
                    None => errors.required(&path, "must not be empty when type is Limited"),
                }
            }
            other => errors.required_one_of(&path.child("type"), Some(other), &[EXEMPT, LIMITED]),
        }
        if default_flows::mandatory_level(name).is_some_and(|fixed| !same_but_exempt(&fixed, self)) {
            let shown = object::json_of(spec);
            let but = if name == default_flows::EXEMPT { " except the 'spec.exempt' field" } else { "" };
            errors.invalid(&path, &shown, format!("spec of '{name}'{but} must equal the fixed value"));
        }
        if self.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(OLD_ZERO_SHARES)) {
            let detail = format!("annotation '{OLD_ZERO_SHARES}' is forbidden");
            errors.forbidden(&Path::root("metadata.annotations"), detail);
        }
    }

    fn validate_status(&self, _old: &Self, errors: &mut FieldErrors) {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        condition_types(errors, conditions.map(|condition| condition.type_.as_str()));
    }
}

fn same_but_exempt(fixed: &PriorityLevelConfiguration, other: &PriorityLevelConfiguration) -> bool {
    fixed.spec.type_ == other.spec.type_ && fixed.spec.limited == other.spec.limited
}

fn queuing_cell(level: &PriorityLevelConfiguration, part: fn(&QueuingConfiguration) -> Option<i32>) -> Value {
    let queuing = level.spec.limited.as_ref().and_then(|limited| limited.limit_response.queuing.as_ref());
    queuing.map_or_else(|| json!(NONE), |queuing| json!(part(queuing).unwrap_or(0)))
}

fn shares(errors: &mut FieldErrors, path: &Path<'_>, shares: Option<i32>) {
    if let Some(shares) = shares.filter(|shares| *shares < 0) {
        errors.invalid(&path.child("nominalConcurrencyShares"), &shares, "must be a non-negative integer");
    }
}

fn lendable(errors: &mut FieldErrors, path: &Path<'_>, percent: Option<i32>) {
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(&path.child("lendablePercent"), &percent, "must be between 0 and 100, inclusive");
    }
}

fn limited(errors: &mut FieldErrors, path: &Path<'_>, limited: &LimitedPriorityLevelConfiguration) {
    shares(errors, path, limited.nominal_concurrency_shares);
    response(errors, &path.child("limitResponse"), &limited.limit_response);
    lendable(errors, path, limited.lendable_percent);
    if let Some(percent) = limited.borrowing_limit_percent.filter(|percent| *percent < 0) {
        let path = path.child("borrowingLimitPercent");
        errors.invalid(&path, &percent, "if specified, must be a non-negative integer");
    }
}

fn response(errors: &mut FieldErrors, path: &Path<'_>, response: &LimitResponse) {
    let at = path.child("queuing");
    match (response.type_.as_str(), &response.queuing) {
        ("Reject", Some(_)) => {
            errors.forbidden(&at, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Reject", None) => {}
        ("Queue", Some(queuing)) => self::queuing(errors, &at, queuing),
        ("Queue", None) => {
            errors.required(&at, "must not be empty if limited.limitResponse.type is Limited");
        }
        (other, _) => errors.required_one_of(&path.child("type"), Some(other), &["Queue", "Reject"]),
    }
}

fn queuing(errors: &mut FieldErrors, path: &Path<'_>, queuing: &QueuingConfiguration) {
    let (length, queues, hand) = (
        queuing.queue_length_limit.unwrap_or(0),
        queuing.queues.unwrap_or(0),
        queuing.hand_size.unwrap_or(0),
    );
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), &length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(&path.child("queues"), &queues, "must be positive");
    } else if queues > MAX_QUEUES {
        errors.invalid(&path.child("queues"), &queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    let path = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&path, &hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&path, &hand, format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues.unsigned_abs(), hand.unsigned_abs()) > MAX_ENTROPY_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_ENTROPY_BITS}"
        );
        errors.invalid(&path, &hand, detail);
    }
}

/// Returns the number of bits of a hash that select a hand from a deck, or one more than the maximum if there are more.
fn entropy_bits(deck: u32, hand: u32) -> u32 {
    let mut bits = 0.0;
    for card in 0..hand {
        bits += f64::from(deck - card).log2();
        if bits > f64::from(MAX_ENTROPY_BITS) {
            return MAX_ENTROPY_BITS + 1;
        }
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most sixty")]
    let whole = bits.ceil() as u32;
    whole
}
