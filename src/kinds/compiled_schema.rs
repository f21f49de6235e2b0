//! A schema ready for use; its patterns and rules are compiled on first use.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use regex::Regex;

use super::rule_costs::RuleCost;
use super::schema_rules::{self, RuleFault, SchemaRules};
use apimachinery::pattern::{self, MAX_LARGE_PATTERNS, MAX_PATTERNS};
use object::definition_schemas::each_schema;

/// The approximate memory of a compiled pattern. Each thread that matches with it takes the same amount again.
const PATTERN_BYTES: usize = 64 << 10;

/// A schema, with the patterns and rules compiled so far.
pub(super) struct CompiledSchema {
    pub(super) root: JSONSchemaProps,
    /// At most one pattern more than a schema may have, which is enough to detect too many.
    patterns: HashMap<String, OnceLock<Result<Pattern, String>>>,
    patterns_in_use: AtomicUsize,
    /// The number of patterns that did not compile within the usual memory limit; the first few are tried with a larger
    /// one.
    large_patterns: AtomicUsize,
    rules: OnceLock<CompiledRules>,
    /// The number of schemas in `root`, itself included.
    schemas: usize,
    /// At least one field has a default.
    pub(super) has_defaults: bool,
}

/// The CEL rules of a schema.
pub(super) struct CompiledRules {
    pub(super) rules: SchemaRules,
    /// Rules with compilation errors.
    pub(super) faults: Vec<RuleFault>,
    /// The estimated maximum cost of each rule.
    pub(super) costs: Vec<RuleCost>,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) regex: Regex,
    /// See [`pattern::weight`].
    pub(super) weight: u64,
}

impl CompiledSchema {
    /// Wraps a schema without compiling anything.
    pub(super) fn new(root: JSONSchemaProps) -> Self {
        let mut patterns: HashMap<String, OnceLock<_>> = HashMap::new();
        let (mut schemas, mut has_defaults) = (0, false);
        each_schema(&root, &mut |schema| {
            schemas += 1;
            has_defaults |= schema.default.is_some();
            if let Some(pattern) = &schema.pattern
                && patterns.len() <= MAX_PATTERNS
            {
                patterns.entry(pattern.clone()).or_default();
            }
        });
        Self {
            root,
            patterns,
            patterns_in_use: AtomicUsize::new(0),
            large_patterns: AtomicUsize::new(0),
            rules: OnceLock::new(),
            schemas,
            has_defaults,
        }
    }

    /// Returns a pattern of the schema; `None` if it cannot be compiled.
    pub(super) fn pattern(&self, pattern: &str) -> Option<&Pattern> {
        self.compile(pattern)?.as_ref().ok()
    }

    /// Returns the compilation error of a pattern of the schema, if there is one.
    pub(super) fn pattern_fault(&self, pattern: &str) -> Option<&str> {
        self.compile(pattern)?.as_ref().err().map(String::as_str)
    }

    fn compile(&self, pattern: &str) -> Option<&Result<Pattern, String>> {
        Some(self.patterns.get(pattern)?.get_or_init(|| {
            self.patterns_in_use.fetch_add(1, Ordering::Relaxed);
            let regex = match pattern::compile(pattern) {
                Err(_) if self.large_patterns.fetch_add(1, Ordering::Relaxed) < MAX_LARGE_PATTERNS => {
                    pattern::compile_large(pattern)
                }
                compiled => compiled,
            };
            Ok(Pattern { regex: regex?, weight: pattern::weight(pattern) })
        }))
    }

    /// Returns the rules of the schema, compiling them on first use.
    pub(super) fn rules(&self) -> &CompiledRules {
        self.rules.get_or_init(|| {
            let (rules, faults, costs) = schema_rules::read(&self.root);
            CompiledRules { rules, faults, costs }
        })
    }

    /// Returns the approximate memory that the schema takes now, in bytes.
    pub(super) fn memory(&self) -> usize {
        let patterns = self.patterns_in_use.load(Ordering::Relaxed);
        let large = self.large_patterns.load(Ordering::Relaxed).min(MAX_LARGE_PATTERNS);
        // The factor accounts for names and texts, which take less than the structs that hold them.
        let schemas = self.schemas * size_of::<JSONSchemaProps>() * 3 / 2;
        schemas + (patterns + large * pattern::LARGE) * PATTERN_BYTES
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_and_rules_are_compiled_when_they_are_needed_perf_1() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": "^a"}, "b": {"type": "string", "pattern": "("}},
            "x-kubernetes-validations": [{"rule": "true"}]});
        let compiled = CompiledSchema::new(serde_json::from_value(schema).unwrap());
        let before = compiled.memory();
        assert!(compiled.rules.get().is_none() && compiled.patterns["^a"].get().is_none());
        assert!(compiled.pattern("^a").is_some_and(|compiled| compiled.regex.is_match("ab")));
        assert!(compiled.pattern_fault("(").is_some() && compiled.pattern("(").is_none());
        assert!(compiled.rules().faults.is_empty() && !compiled.rules().rules.is_empty());
        assert!(compiled.memory() > before);
    }
}
