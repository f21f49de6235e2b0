//! Kubernetes' own test cases (`TestCostEstimation` of its apiextensions server): the cost of each rule for a
//! schema without bounds, and for the same with bounds.

use serde_json::{Value, json};

use crate::cel::{DeclType, Environment, Program, Type};

/// The maximum cost of a rule over values of a schema.
fn cost(schema: &Value, is_resource: bool, rule: &str) -> u64 {
    let schema = serde_json::from_value(schema.clone()).unwrap();
    let declared = DeclType::of(&schema, is_resource).unwrap();
    let own = if is_resource { Type::Object(&schema) } else { Type::Schema(&schema) };
    let variables = vec![("self", own), ("oldSelf", own)];
    let environment = Environment::of(variables).with_sizes(Some(&declared));
    let program = Program::compile_in(rule, &environment, &[Type::Dyn]);
    program.unwrap_or_else(|error| panic!("{rule}: {error}")).cost().unwrap()
}

/// A schema with a bound under this name, if there is one.
fn bounded(mut schema: Value, name: &str, bound: Option<i64>) -> Value {
    if let Some(bound) = bound {
        schema[name] = json!(bound);
    }
    schema
}

fn value(type_name: &str) -> Value {
    match type_name {
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "duration" | "date" | "date-time" | "byte" => json!({"type": "string", "format": type_name}),
        "array" => json!({"type": "array", "items": {"type": "number"}}),
        "map" => json!({"type": "object", "additionalProperties": {"type": "number"}}),
        "object" => json!({"type": "object", "required": ["required"],
            "properties": {"required": {"type": "string"}, "optional": {"type": "string"}}}),
        sort => json!({"type": sort}),
    }
}

fn list(item: &Value, bound: Option<i64>) -> Value {
    bounded(json!({"type": "array", "items": item}), "maxItems", bound)
}

fn map(of: &Value, bound: Option<i64>) -> Value {
    bounded(json!({"type": "object", "additionalProperties": of}), "maxProperties", bound)
}

fn text(bound: Option<i64>) -> Value {
    bounded(value("string"), "maxLength", bound)
}

#[test]
fn lists_of_any_sort_cost_what_kubernetes_says_api_14() {
    for (item, rule, unbounded, bound, expected) in [
        ("number", "self.all(x, true)", 4_718_591, 10, 32),
        ("string", "self.all(x, true)", 3_145_727, 20, 62),
        ("boolean", "self.all(x, true)", 1_887_437, 5, 17),
        ("array", "self.all(x, true)", 3_145_727, 100, 302),
        ("object", "self.all(x, true)", 555_128, 50, 152),
        ("number", "self[1] == 0.0", 2, 5000, 2),
        ("string", "self[1] == self[1]", 314_577, 8, 314_577),
        ("number", "self[3] == 0.0", 2, 0, 2),
        ("number", "self.all(x, x == 0.0)", 6_291_454, 3 * 1024 * 2048, 25_165_826),
        ("int-or-string", "self.all(x, true)", 4_718_591, 10, 32),
        ("int-or-string", "self[0] == 5", 3, 10, 3),
        ("boolean", "self[0] == false", 2, 25, 2),
        ("object", "self[0] == null", 2, 422, 2),
        ("array", "self[0][0] == -1.0", 3, 51, 3),
        ("map", "self.all(x, x.y == 25.2)", 6_291_452, 12, 74),
        ("map", "self[0].x > 2.0", 4, 3000, 4),
        ("duration", "self.all(x, true)", 2_359_295, 5, 17),
        ("duration", "self[0].getHours() == 2", 4, 525, 4),
        ("date", "self.all(x, true)", 725_936, 15, 47),
        ("date", "self[2].getDayOfMonth() == 13", 4, 42, 4),
        ("date-time", "self.all(x, true)", 428_963, 25, 77),
        ("date-time", "self[2].getMinutes() == 45", 4, 99, 4),
    ] {
        assert_eq!(cost(&list(&value(item), None), false, rule), unbounded, "{item}: {rule}");
        assert_eq!(cost(&list(&value(item), Some(bound)), false, rule), expected, "{bound} {item}: {rule}");
    }
    let numbers = |bound| list(&value("number"), bound);
    for (rule, expected) in
        [("self.all(x, self.all(y, true))", 352), ("self.all(x, self.all(y, self.all(z, true)))", 3552)]
    {
        assert!(cost(&numbers(None), false, rule) > 10_000_000, "{rule}");
        assert_eq!(cost(&numbers(Some(10)), false, rule), expected, "{rule}");
    }
}

#[test]
fn maps_of_any_sort_cost_what_kubernetes_says_api_14() {
    for (of, rule, unbounded, bound, expected) in [
        ("number", "self.all(x, true)", 1_348_169, 10, 32),
        ("string", "self.all(x, true)", 1_179_647, 3, 11),
        ("boolean", "self.all(x, true)", 943_718, 100, 302),
        ("int-or-string", "self.all(x, true)", 1_348_169, 15, 47),
        ("object", "self.all(x, true)", 428_963, 20, 62),
        ("map", "self.all(x, true)", 1_179_647, 10, 32),
        ("array", "self.all(x, true)", 1_179_647, 25, 77),
        ("duration", "self.all(x, true)", 1_048_577, 5, 17),
        ("date", "self.all(x, true)", 524_288, 10, 32),
        ("date-time", "self.all(x, true)", 349_526, 25, 77),
        ("number", "self[\"x\"] == 0.0", 2, 0, 2),
        ("integer", "oldSelf.size() == self.size()", 5, 10, 5),
        ("date-time", "self[\"a\"] == self[\"b\"]", 8, 7, 8),
        ("duration", "self[\"c\"] == self[\"d\"]", 8, 42, 8),
        // `has()` costs as much as naming its operand.
        ("number", "has(self.x)", 1, 100, 1),
    ] {
        assert_eq!(cost(&map(&value(of), None), false, rule), unbounded, "{of}: {rule}");
        assert_eq!(cost(&map(&value(of), Some(bound)), false, rule), expected, "{bound} {of}: {rule}");
    }
}

#[test]
fn texts_cost_what_kubernetes_says_api_14() {
    for (rule, unbounded, bound, expected) in [
        ("self.contains('test')", 314_574, 10, 5),
        ("self.startsWith('test')", 2, 15, 2),
        ("self.endsWith('test')", 2, 30, 2),
        ("size(self + \"hello\") > size(\"hello\")", 314_578, 4, 7),
        ("self.matches(\"x\")", 314_574, 50, 22),
        ("\"\".matches(\"(((((((((())))))))))[0-9]\")", 7, 10, 7),
        ("self.matches(\"\")", 1, 100, 1),
        ("self == \"x\"", 2, 0, 1),
        ("self.find('[0-9]+') == ''", 629_147, 10, 11),
        ("self.lowerAscii() == 'lower!'", 314_575, 10, 6),
    ] {
        assert_eq!(cost(&text(None), false, rule), unbounded, "{rule}");
        assert_eq!(cost(&text(Some(bound)), false, rule), expected, "{bound}: {rule}");
    }
    let bytes = |bound| bounded(value("byte"), "maxLength", bound);
    assert_eq!(cost(&bytes(None), false, "self == b\"x\""), 2);
    assert_eq!(cost(&bytes(Some(0)), false, "self == b\"x\""), 1);
    let either = |bound| bounded(value("int-or-string"), "maxLength", bound);
    assert_eq!(cost(&either(None), false, "isQuantity(self)"), 314_574);
    assert_eq!(cost(&either(Some(20)), false, "isQuantity(self)"), 9);
    let one_of = |bound| {
        let schema = json!({"type": "string", "enum": ["A", "B", "C", "LongValue"]});
        bounded(schema, "maxLength", bound)
    };
    assert_eq!(cost(&one_of(None), false, "self.contains('A')"), 2);
    assert_eq!(cost(&one_of(Some(1000)), false, "self.contains('A')"), 401);
}

#[test]
fn nested_schemas_cost_the_same_as_in_kubernetes_api_14() {
    let texts = |bound| map(&text(bound), bound);
    let values = "self.all(x, x.contains(self[x]))";
    assert_eq!(cost(&texts(None), false, values), 2_752_507);
    assert_eq!(cost(&texts(Some(10)), false, values), 72);
    let root = "self.all(x, x[\"y\"].required == \"z\")";
    let nested = |bound, whole| list(&map(&value("object"), bound), whole);
    assert_eq!(cost(&nested(None, None), false, root), 7_340_027);
    assert_eq!(cost(&nested(Some(10), Some(10)), false, root), 72);
    assert_eq!(cost(&nested(Some(10), None), false, root), 7_340_027);
    for (rule, unbounded, expected) in
        [("self.join(' ') == 'aa bb'", 329_853_068_905, 43), ("self.isSorted() == true", 329_854_432_052, 52)]
    {
        assert_eq!(cost(&list(&text(None), None), false, rule), unbounded, "{rule}");
        assert_eq!(cost(&list(&text(Some(10)), Some(10)), false, rule), expected, "{rule}");
    }
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let replace = "self.str.replace(self.before, self.after) == 'does not matter'";
    let replaced =
        |bound| object(json!({"str": text(bound), "before": text(Some(2)), "after": text(Some(4))}));
    assert_eq!(cost(&replaced(None), false, replace), 629_154);
    assert_eq!(cost(&replaced(Some(4)), false, replace), 12);
    let split = "self.str.split(self.separator) == []";
    let parted = |bound| object(json!({"str": text(bound), "separator": text(bound)}));
    assert_eq!(cost(&parted(None), false, split), 629_160);
    assert_eq!(cost(&parted(Some(10)), false, split), 22);
}

/// An object's name has bounded length, even if its schema has no bound.
#[test]
fn the_name_of_an_object_is_bounded_api_14() {
    for rule in ["self.metadata.name.contains('x')", "self.metadata.generateName.contains('x')"] {
        let cost = cost(&json!({"type": "object"}), true, rule);
        assert!((1..10_000).contains(&cost), "{rule}: {cost}");
    }
}

/// A macro of an extension library costs as much as its expansion.
#[test]
fn macros_of_libraries_are_estimated_as_what_they_become_api_14() {
    let numbers = list(&value("number"), Some(10));
    for (rule, expected) in [
        // An empty list, the value, the expression.
        ("cel.bind(x, self, x.all(y, true))", 10 + 1 + 32),
        ("self.all(i, x, true)", 32),
        ("self.exists(i, x, true)", 42),
        ("self.existsOne(i, x, true)", 1 + 10 * 2 + 2),
        ("size(self.transformList(i, x, x)) == 1", 1 + 10 + 10 * 13 + 1 + 1 + 1),
        // `self[?0]` twice, its presence, its value, the binding, `x`, the optional, `orValue`, the
        // comparison.
        ("self[?0].optMap(x, x).orValue(1.0) == 1.0", 3 + (2 + 1) + 10 + 1 + 1 + 1 + 1),
    ] {
        assert_eq!(cost(&numbers, false, rule), expected, "{rule}");
    }
}

/// From Kubernetes' `TestCelEstimatedCostStability`, all of whose numbers this estimator was compared with.
#[test]
fn functions_of_libraries_cost_what_kubernetes_says_api_14() {
    let texts =
        json!({"type": "object", "properties": {"val1": {"type": "string"}, "val2": {"type": "string"}}});
    for (rule, expected) in [
        ("isQuantity(self.val1)", 314_575),
        ("quantity(self.val1).isLessThan(quantity(self.val2))", 629_151),
        ("quantity(self.val1).isInteger()", 314_576),
        ("self.val1.indexOf('o') == 1", 314_576),
        ("self.val1.indexOf('o', 2) == 2", 314_576),
        ("self.val1.matches('^[^0-9]*$')", 943_721),
        ("!self.val1.matches('^[0-9]*$')", 629_149),
        ("strings.quote('ABCDEFGHIJ abcdefghij') == strings.quote('ABCDEFGHIJ abcdefghij')", 11),
        ("semver('1234.56789012345.67890123456789') == semver('1.0.0')", 4 + 1 + 1),
        ("isSemver('1.0.0', true)", 1),
        ("semver('1.2.3').major() == 1", 2 + 1),
        ("semver('1.0.0').isLessThan(semver('1.1.0'))", 3),
        ("semver('1.0.0').compareTo(semver('1.2.3')) == 1", 3 + 1),
        // The list, and a tenth of the format string.
        (
            "'%d %d %d, %s %s %s, %d %d %d, %s %s %s'.format([1, 2, 3, 'A', 'B', 'C', 4, 5, 6, 'D', 'E', 'F'])",
            14,
        ),
        ("'unescaped unicode: %e, escaped unicode: %e'.format([2.71828, 2.71828])", 15),
    ] {
        assert_eq!(cost(&texts, true, rule), expected, "{rule}");
    }
}

/// From cel-go's `TestListsCosts`.
#[test]
fn functions_of_lists_cost_what_cel_go_says_api_14() {
    for (rule, expected) in [
        ("lists.range(4) == [0, 1, 2, 3]", 26),
        ("lists.range(4 / 2) == [0, 1]", u64::MAX),
        ("[[1, 2], 3].flatten(1) == [1, 2, 3]", 44),
        ("[[1, 2], 3].flatten(3) == [1, 2, 3]", 48),
        ("[{'x':4}, {'x':3}].sortBy(m, m['x']) == [{'x':3}, {'x':4}]", 211),
    ] {
        assert_eq!(cost(&json!({"type": "object"}), true, rule), expected, "{rule}");
    }
}
