//! Expressions of jq, as k9s' custom columns accept them: `.spec.containers[0].image | split(":") | .[-1]`.
//!
//! The syntax is jq's, read by `jaq-core`'s parser. Expressions are evaluated here, because a column is computed for
//! each row of a table at each change, on expressions that another person may have written: every step costs a part of
//! a budget, and an exhausted budget is an error of that cell. So there are no definitions, no recursion except `..`, no
//! input but the object, no environment, no clock; assignments would have no visible effect and are not supported. An
//! expression with an unsupported feature is refused when the file is read, not when a row is drawn.
//!
//! The interpreter of `jaq-core`, with `jaq-std` and the values of `jaq-json`, cannot be bounded: it has no hook between
//! two steps, and a thread cannot be stopped from outside. `last(range(1e15))` and `[repeat(1)]` never give a first
//! result at which a caller could count; `reduce .[] as $i ("a"; . + .)` allocates until the process is aborted;
//! `reduce range(200000) as $i (0; [.])` overflows the stack when its value is dropped. A type of values of our own with
//! a budget inside would need all of [`values`] and [`functions`] as well as the operations for assignments, and the
//! expressions would still have to be checked as [`compile`] does, so that only [`eval`] would go.
//!
//! One difference from jq: if a part of an expression fails, its earlier results are not shown either.

mod budget;
mod compile;
mod eval;
mod functions;
mod values;

use serde_json::Value;

use eval::JqRun;

/// The maximum length of an expression in characters.
const LONGEST: usize = 1024;
/// The budget of an expression for one object: a step costs one, copied or created data its length in words.
const BUDGET: usize = 50_000;
/// The maximum number of results; further ones are dropped.
const MAX_RESULTS: usize = 256;

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct Jq {
    text: String,
    filter: compile::Filter,
}

/// Expressions with the same text are equal.
impl PartialEq for Jq {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Jq {
    /// Parses an expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("longer than {LONGEST} characters"));
        }
        Ok(Self { text: text.to_owned(), filter: compile::compile(text)? })
    }

    /// Evaluates the expression for an object.
    ///
    /// # Errors
    /// A type error in jq's wording; or an exhausted budget.
    pub(crate) fn run(&self, object: &Value) -> Result<Vec<Value>, String> {
        let mut run = JqRun::new(BUDGET);
        let given = run.all(&self.filter, object)?;
        Ok(given.into_iter().take(MAX_RESULTS).map(std::borrow::Cow::into_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "web-1", "labels": {"app": "web", "tier": "front"}, "annotations": null},
            "spec": {"containers": [
                {"name": "main", "image": "registry:5000/nginx:1.27", "resources": {"limits": {"cpu": "2"}}},
                {"name": "side", "image": "envoy:v3"}]},
            "status": {"restarts": 3, "load": 0.5, "ready": true},
        })
    }

    fn check(expression: &str, expected: &Value) {
        let jq = Jq::parse(expression).unwrap_or_else(|why| panic!("{expression}: {why}"));
        let given = jq.run(&pod()).unwrap_or_else(|why| panic!("{expression}: {why}"));
        assert_eq!(&Value::Array(given), expected, "{expression}");
    }

    #[test]
    fn expressions_give_what_jq_gives_con_16() {
        for (expression, expected) in [
            (".spec.containers[0].image|split(\":\")|.[-1]", json!(["1.27"])),
            (".spec.containers[].name", json!(["main", "side"])),
            ("[.spec.containers[].name] | join(\",\")", json!(["main,side"])),
            (".spec.containers | map(.image | sub(\".*/\"; \"\")) | .[1:]", json!([["envoy:v3"]])),
            (".spec.containers[] | select(.resources.limits.cpu == \"2\") | .name", json!(["main"])),
            (
                ".metadata.labels | to_entries | map(\"\\(.key)=\\(.value)\") | join(\" \")",
                json!(["app=web tier=front"]),
            ),
            (".metadata.labels | keys", json!([["app", "tier"]])),
            (".metadata.annotations.x // \"none\"", json!(["none"])),
            (".metadata.nothing.at.all | . == null", json!([true])),
            (
                "if .status.restarts > 2 then \"many\" elif .status.ready then \"few\" else \"?\" end",
                json!(["many"]),
            ),
            ("if .status.ready | not then 1 end | .status.restarts", json!([3])),
            (".status.restarts * 2 + 1, -.status.load, 7 % 4, 6 / 4", json!([7, -0.5, 3, 1.5])),
            (".spec.containers | length, (.[0].name | length), (.[2] | length)", json!([2, 4, 0])),
            ("[.spec.containers[] | .image | test(\"^envoy\")]", json!([[false, true]])),
            ("[..|strings] | length", json!([8])),
            (".status as $s | .metadata.name + \"/\" + ($s.restarts | tostring)", json!(["web-1/3"])),
            ("reduce .spec.containers[] as $c (0; . + ($c.name | length))", json!([8])),
            ("{n: .metadata.name, \"r\": .status.restarts} | .n, .r", json!(["web-1", 3])),
            (".metadata.name | ascii_upcase | ltrimstr(\"WEB-\") | tonumber + 1", json!([2])),
            ("[.metadata.name | .missing?]", json!([[]])),
            ("try (.metadata.name | .[0].x) catch \"no\"", json!(["no"])),
            (
                "[3, 1, 2] | sort, max, min, add, (map(. * 10) | last), first, reverse",
                json!([[1, 2, 3], 3, 1, 6, 20, 3, [2, 1, 3]]),
            ),
            (
                "[1, 1, 2] | unique, any(. > 1), all(. > 1), (.[] | select(. == 2)), index(2), contains([2])",
                json!([[1, 2], true, false, 2, 2, true]),
            ),
            (".spec.containers | sort_by(.image) | map(.name)", json!([["side", "main"]])),
            ("null | length, type, ([.[]?])", json!([0, "null", []])),
            (".metadata | has(\"name\"), has(\"x\")", json!([true, false])),
            ("[1, [2, [3]]] | flatten", json!([[1, 2, 3]])),
            (
                "\"a-b\" | startswith(\"a\"), endswith(\"b\"), gsub(\"-\"; \"+\"), .[0:1]",
                json!([true, true, "a+b", "a"]),
            ),
            ("empty", json!([])),
            ("1.5 | floor, ceil, round", json!([1, 2, 2])),
        ] {
            check(expression, &expected);
        }
    }

    #[test]
    fn invalid_jq_expressions_are_rejected_with_a_reason_con_16() {
        for (expression, why) in [
            (".a | splitt(\":\")", "no function splitt with 1 argument; did you mean split?"),
            (".a | split", "no function split with 0 arguments"),
            (".a | (.b", "syntax error"),
            (".a |", "syntax error at the end"),
            ("def f: f; f", "definitions are not supported"),
            (".a = 1", "assignments are not supported"),
            ("$x", "variable $x is not defined"),
            ("$ENV | .a", "variable $ENV is not defined"),
            ("input | .a", "no function input"),
            ("label $f | break $f", "label and break are not supported"),
        ] {
            let error = Jq::parse(expression).expect_err(expression);
            assert!(error.contains(why), "{expression}: {error}");
        }
        assert!(Jq::parse(&"(".repeat(500)).unwrap_err().contains("deep"));
        assert!(Jq::parse(&format!("{}.a", "-".repeat(900))).unwrap_err().contains("deep"));
        assert!(Jq::parse(&"1+".repeat(600)).is_err());
    }

    #[test]
    fn no_expression_runs_for_long_or_grows_without_bound_con_1() {
        let many = json!({"items": vec!["x".repeat(100); 500]});
        for expression in [
            "[..] | [.[] as $a | .[] as $b | .[] as $c | 1]",
            "[limit(1000000000; repeat(1))]",
            "reduce .items[] as $i (\"\"; . + $i + $i + $i + $i)",
            "reduce .items[] as $i (\"a\"; . + .)",
            "[.items[] | split(\"\")] | [.[] | .[]] | join(\",\") | [., ., .] | [.[] | split(\"\")] | flatten",
            "[.items[] as $i | .items[] | test(\"(a*)*b\")]",
        ] {
            // An expression that is refused at parsing is not evaluated.
            let Ok(jq) = Jq::parse(expression) else { continue };
            let error = jq.run(&many).expect_err(expression);
            assert!(error.contains("too many steps"), "{expression}: {error}");
        }
        assert_eq!(Jq::parse(".items[]").unwrap().run(&many).map(|given| given.len()), Ok(MAX_RESULTS));
    }

    #[test]
    fn a_failing_jq_expression_is_an_error_of_the_cell_con_16() {
        for (expression, why) in [
            (".metadata | split(\":\")", "object cannot be split"),
            (".status.restarts | .x", "number has no field \"x\""),
            (".metadata.name + 1", "string and number cannot be added"),
            (".metadata[0]", "object cannot be indexed with 0"),
            ("1 / 0", "divided by zero"),
            ("5 % 0.5", "divided by zero"),
            (".metadata.name | tonumber", "\"web-1\" is not a number"),
            ("error(\"own\")", "own"),
        ] {
            let error = Jq::parse(expression).expect(expression).run(&pod()).expect_err(expression);
            assert!(error.contains(why), "{expression}: {error}");
        }
    }
}
