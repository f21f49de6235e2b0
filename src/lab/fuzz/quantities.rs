//! Quantities: a parsed quantity survives writing and parsing as the same amount.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use object::quantity::Amount;

/// Input: two quantities, separated by a comma.
pub(super) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (first, second) = text.split_once(',').unwrap_or((text, "1"));
    let (Ok(first), Ok(second)) = (Amount::parse(first), Amount::parse(second)) else { return };
    for amount in [first, second] {
        for written in [amount.to_decimal(), amount.to_binary()] {
            // The largest amounts are written with more digits than the parser accepts.
            if written.0.trim_start_matches('-').len() < 30 {
                assert_eq!(Amount::parse(&written.0), Ok(amount), "{written:?}");
            }
        }
        // The conversion rounds up, or returns the bound of i64 if the amount is out of range.
        let (units, millis) = (amount.units(), amount.millis());
        let is_bound = |number: i64| number == i64::MAX || number == i64::MIN;
        assert!(is_bound(units) || Amount::from_units(units) >= amount);
        assert!(is_bound(millis) || Amount::from_millis(millis) >= amount);
        assert_eq!(amount.is_negative(), amount < Amount::ZERO);
        let _ = amount.to_text_like(&Quantity("1Ki".into()));
    }
    let sum = first + second;
    assert_eq!(sum, second + first);
    assert!(!second.is_zero() || sum == first);
    let _ = first - second;
}
