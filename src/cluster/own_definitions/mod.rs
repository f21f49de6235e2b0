//! Applies the definitions of Podium's own kinds at the start, before any actor uses the kinds.

#[cfg(test)]
mod tests;

use api::{Api, ApiError};
use object::Key;

/// Applies the definitions and serves them at once.
pub(super) fn apply(api: &Api) -> Result<(), ApiError> {
    for desired in extension::definitions() {
        let key = Key::of(&desired.metadata);
        operators::definitions::apply(api, desired)?;
        controllers::establish_definition(api, &key)?;
    }
    Ok(())
}
