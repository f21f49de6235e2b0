//! Schemas as they were read: their patterns and rules, compiled once for the definition's validation and for the kind that
//! it gives.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use parking_lot::Mutex;
use regex::Regex;

use super::rule_costs::RuleCost;
use super::schema_rules::{self, RuleFault, SchemaRules};
use crate::pattern::{self, MAX_LARGE_PATTERNS, MAX_PATTERNS};
use base::quote::quote;

/// Schemas of definitions that are on their way from their validation to being served: as many as may come in one manifest.
const KEPT: usize = 16;
/// What has more patterns is not kept for that: each may take half a megabyte.
const KEPT_PATTERNS: usize = 64;

static RECENT: Mutex<VecDeque<Arc<Compiled>>> = Mutex::new(VecDeque::new());

/// A schema, and what was read from it.
pub(crate) struct Compiled {
    pub(super) root: JSONSchemaProps,
    /// Or what is wrong with one; as many as a schema may have.
    patterns: HashMap<String, Result<Pattern, String>>,
    /// How many of them were tried that take more memory than others.
    large_patterns: usize,
    /// A field somewhere has a default.
    pub(super) has_defaults: bool,
    pub(super) rules: SchemaRules,
    /// What is wrong with rules.
    pub(super) faults: Vec<RuleFault>,
    /// What rules cost at most.
    pub(super) costs: Vec<RuleCost>,
}

/// A pattern, compiled.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// About how many letters it stands for.
    pub(super) weight: u64,
}

impl Compiled {
    /// Reads a schema, unless that was done a moment ago.
    pub(super) fn of(root: &JSONSchemaProps) -> Arc<Self> {
        if let Some(known) = RECENT.lock().iter().find(|known| known.root == *root) {
            return known.clone();
        }
        let read = Arc::new(Self::read(root.clone()));
        if read.patterns.len() + read.large_patterns * pattern::LARGE <= KEPT_PATTERNS {
            let mut recent = RECENT.lock();
            recent.truncate(KEPT - 1);
            recent.push_front(read.clone());
        }
        read
    }

    /// Reads a schema that nobody else asks for.
    pub(super) fn read(root: JSONSchemaProps) -> Self {
        let mut compiler = Compiler { patterns: HashMap::new(), large: 0, has_defaults: false };
        compiler.compile(&root);
        let Compiler { patterns, large: large_patterns, has_defaults } = compiler;
        let (rules, faults, costs) = schema_rules::read(&root);
        Self { root, patterns, large_patterns, has_defaults, rules, faults, costs }
    }

    /// A pattern of it, compiled.
    pub(super) fn pattern(&self, pattern: &str) -> Option<&Pattern> {
        self.patterns.get(pattern).and_then(|compiled| compiled.as_ref().ok())
    }

    /// What is wrong with a pattern of it.
    pub(super) fn pattern_fault(&self, pattern: &str) -> Option<&str> {
        self.patterns.get(pattern).and_then(|compiled| compiled.as_ref().err()).map(String::as_str)
    }

    /// Refuses a schema with a pattern that cannot be read.
    pub(super) fn check_patterns(&self) -> Result<(), String> {
        if self.patterns.len() > MAX_PATTERNS {
            return Err(format!("more than {MAX_PATTERNS} patterns"));
        }
        let mut faults = self.patterns.iter().filter_map(|(pattern, compiled)| {
            compiled.as_ref().err().map(|error| format!("pattern {}: {error}", quote(pattern)))
        });
        faults.next().map_or(Ok(()), Err)
    }
}

/// A kind is served: its schemas are held by it now.
pub(super) fn forget_recent() {
    RECENT.lock().retain(|kept| Arc::strong_count(kept) == 1);
}

/// Looks through a schema.
struct Compiler {
    patterns: HashMap<String, Result<Pattern, String>>,
    large: usize,
    has_defaults: bool,
}

impl Compiler {
    /// Compiles the patterns of a schema, and one more than there may be.
    fn compile(&mut self, schema: &JSONSchemaProps) {
        self.has_defaults |= schema.default.is_some();
        if self.patterns.len() > MAX_PATTERNS {
            return;
        }
        if let Some(pattern) = &schema.pattern
            && !self.patterns.contains_key(pattern)
        {
            let compiled = self.pattern(pattern);
            self.patterns.insert(pattern.clone(), compiled);
        }
        let items = match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(one)) => std::slice::from_ref(&**one),
            Some(JSONSchemaPropsOrArray::Schemas(many)) => many,
            None => &[],
        };
        let any_field = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(any)) => Some(&**any),
            _ => None,
        };
        let junctors = [&schema.all_of, &schema.any_of, &schema.one_of];
        let below = schema
            .properties
            .iter()
            .flat_map(|properties| properties.values())
            .chain(items)
            .chain(any_field)
            .chain(junctors.into_iter().flatten().flatten())
            .chain(schema.not.as_deref());
        below.into_iter().for_each(|schema| self.compile(schema));
    }

    fn pattern(&mut self, pattern: &str) -> Result<Pattern, String> {
        let regex = match pattern::compile(pattern) {
            Err(_) if self.large < MAX_LARGE_PATTERNS => {
                self.large += 1;
                pattern::compile_large(pattern)
            }
            compiled => compiled,
        };
        Ok(Pattern { regex: regex?, weight: pattern::weight(pattern) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_compiled_once_on_its_way_from_validation_to_service_api_14() {
        let schema = |name: &str| -> JSONSchemaProps {
            let schema = json!({"type": "object", "properties": {name: {"type": "string", "pattern": "^a"}},
                "x-kubernetes-validations": [{"rule": "true"}]});
            serde_json::from_value(schema).unwrap()
        };
        let validated = Compiled::of(&schema("once"));
        assert!(Arc::ptr_eq(&validated, &Compiled::of(&schema("once"))));
        assert!(!Arc::ptr_eq(&validated, &Compiled::of(&schema("other"))));
        assert!(validated.pattern("^a").is_some_and(|compiled| compiled.regex.is_match("ab")));
    }
}
