//! Tables of expressions with their values.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};

use super::{Budget, Error, Program, Type, Val};

fn schema() -> JSONSchemaProps {
    serde_json::from_value(json!({"type": "object", "properties": {
        "name": {"type": "string"}, "count": {"type": "integer"}, "ratio": {"type": "number"},
        "on": {"type": "boolean"}, "at": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": true},
        "x-y": {"type": "string"}, "in": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "size": {"type": "integer"}}}}}}))
    .unwrap()
}

fn object() -> Value {
    json!({"name": "web", "count": 3, "ratio": 2, "on": true, "at": "2026-11-21T01:02:03Z", "port": "http",
        "x-y": "dashed", "in": "word", "tags": ["a", "b", "a"], "labels": {"k": "v", "l": "w"},
        "parts": [{"name": "x", "size": 1}, {"name": "y", "size": 2}]})
}

fn evaluate(source: &str) -> Result<bool, String> {
    let (schema, object) = (schema(), object());
    let program = Program::compile(source, &[("self", Type::Object(&schema))], &[Type::Bool])?;
    let value = program.run(&[("self", Val::of_json(&object, Some(&schema)))], &mut Budget::default());
    match value {
        Ok(Val::Bool(value)) => Ok(value),
        Ok(value) => Err(format!("{value:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn expressions_hold_api_14() {
    for source in [
        "self.count == 3 && self.ratio == 2.0 && self.count < 4",
        "self.count + 1 == 4 && self.count * 2 - 1 == 5 && 7 / 2 == 3 && 7 % 2 == 1 && -self.count == -3",
        "size(self.tags) == 3 && self.name.size() == 3 && self.labels.size() == 2",
        "has(self.name) && has(self.parts[0].size)",
        "self.tags.all(t, t in ['a', 'b']) && self.tags.exists(t, t == 'b') && self.tags.exists_one(t, t == 'b')",
        "self.tags.filter(t, t == 'a') == ['a', 'a'] && self.parts.map(p, p.size) == [1, 2]",
        "self.parts.map(p, p.size > 1, p.name) == ['y']",
        "self.labels.all(k, self.labels[k].size() == 1) && 'k' in self.labels && !('z' in self.labels)",
        "self.parts.filter(p, p.size > 1)[0].name == 'y'",
        "self.x__dash__y == 'dashed' && self.__in__ == 'word'",
        "self.name.startsWith('w') && self.name.endsWith('b') && self.name.contains('e')",
        "self.name.matches('^[a-z]+$') && !self.name.matches(r'^\\d+$') && 'abc'.find('b.') == 'bc'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && ['a', 'b'].join('-') == 'a-b' && 'abc'.substring(1) == 'bc'",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'aba'.replace('a', 'x') == 'xbx' && 'aba'.indexOf('b') == 1",
        "'Ab'.lowerAscii() == 'ab' && ' a '.trim() == 'a' && 'abc'.charAt(1) == 'b' && 'abca'.lastIndexOf('a') == 3",
        "self.at > timestamp('2026-01-01T00:00:00Z') && self.at.getFullYear() == 2026 && self.at.getMonth() == 10",
        "duration('1h') > duration('59m') && duration('90s').getMinutes() == 1 && duration('1.5s').getMilliseconds() == 1500",
        "int(duration('2s')) == 2000000000 && self.at - duration('1h') < self.at && bool('T') && !bool('F')",
        "self.at.getHours('+02:30') == 3 && self.at.getMinutes('-1:30') == 32 && self.at.getHours('Asia/Tokyo') == 10",
        "quantity('5k').isInteger() && !quantity('9007199254740993500m').isInteger() && !quantity('10E').isInteger()",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && isQuantity('1.5') && !isQuantity('x')",
        "quantity('500m').add(quantity('500m')).compareTo(quantity('1')) == 0 && quantity('2').asInteger() == 2",
        "ip('10.0.0.1').family() == 4 && isIP('::1') && !isIP('10.0.0') && cidr('10.0.0.0/8').containsIP('10.1.2.3')",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "url('https://u@a.test:80/b?c=d').getHost() == 'a.test:80' && url('https://a.test/b?c=d').getQuery()['c'] == ['d']",
        "isURL('https://a.test/') && !isURL('a b') && url('http://a.test:81/').getPort() == '81'",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "[3, 1, 2].max() == 3 && [3, 1].min() == 1 && [1, 2].sum() == 3 && [1, 2].isSorted() && [1, 2].indexOf(2) == 1",
        "self.?labels.?missing.orValue('x') == 'x' && self.?name.orValue('x') == 'web'",
        "optional.of(1).hasValue() && optional.none().orValue(2) == 2 && self.labels[?'z'].orValue('q') == 'q'",
        "self.labels[?'k'].optMap(v, v + '!').value() == 'v!' && {'a': 1}[?'b'].or(optional.of(3)).value() == 3",
        "self.port == 'http' && type(self.port) == string && type(self.count) == int && self.port != 80",
        "format.dns1123Label().validate('a-b') == optional.none() && format.dns1123Label().validate('A').hasValue()",
        "string(self.count) == '3' && int('12') == 12 && double('1.5') == 1.5 && string(duration('90s')) == '90s'",
        "int(9.21e18) == 9210000000000000000 && int(-9.21e18) == -9210000000000000000 && int(-1.9) == -1",
        "uint(1.81e19) == uint('18100000000000000000') && uint(0.9) == uint(0)",
        "(self.count > 1 ? 'many' : 'one') == 'many'",
        "dyn(1) == dyn(1.0) && !(dyn(1) == dyn('1'))",
        "cel.bind(x, self.count + 1, x * x) == 16 && cel.bind(t, self.tags, t.all(i, v, i < 3 && v in ['a', 'b']))",
        "self.labels.all(k, v, self.labels[k] == v) && self.tags.exists(i, v, i == 1 && v == 'b')",
        "self.tags.existsOne(i, v, v == 'b') && !self.tags.existsOne(i, v, v == 'a') && ![].exists(i, v, true)",
        "self.tags.transformList(i, v, v + string(i)) == ['a0', 'b1', 'a2']",
        "self.tags.transformList(i, v, i > 0, v) == ['b', 'a'] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "self.labels.transformMap(k, v, k == 'k', v + '!') == {'k': 'v!'}",
        "self.labels.transformMapEntry(k, v, {v: k}) == {'v': 'k', 'w': 'l'}",
        "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'",
        // An error that does not matter.
        "self.labels['none'] == 'x' || true",
        "true || self.labels['none'] == 'x'",
        "!(self.labels['none'] == 'x' && false)",
        "self.tags.exists(t, self.labels[t] == 'x' || t == 'b')",
        "math.greatest(1, 3, 2) == 3 && math.least([4, 2]) == 2",
        "'\\u00e9'.size() == 1 && b'abc'.size() == 3",
        "self.metadata.name == 'x' || true",
    ] {
        assert_eq!(evaluate(source), Ok(true), "{source}");
    }
}

/// From cel-go's tests of its libraries for lists and strings.
#[test]
fn lists_and_strings_have_the_functions_of_cel_go_api_14() {
    for source in [
        "lists.range(4) == [0, 1, 2, 3] && lists.range(self.count - 3) == [] && lists.range(-1) == []",
        "dyn([1, [2, [3, 4]]]).flatten() == dyn([1, 2, [3, 4]]) && [1, 2].flatten() == [1, 2]",
        "dyn([1, [2, [3, [4]]]]).flatten(2) == dyn([1, 2, 3, [4]]) && dyn([[1]]).flatten(0) == dyn([[1]])",
        "[].sortBy(e, e) == [] && ['a'].sortBy(e, e) == ['a'] && lists.range(3).sortBy(e, -e) == [2, 1, 0]",
        "[-3, 1, -5, -2, 4].map(e, e * 2).sortBy(e, -(e * e)) == [-10, 8, -6, -4, 2]",
        "['a', 'c', 'b', 'first'].sortBy(e, e == 'first' ? '' : e) == ['first', 'a', 'b', 'c']",
        "self.parts.sortBy(p, -p.size).map(p, p.name) == ['y', 'x']",
        "self.parts.sortBy(p, p.size)[0].name == 'x' && self.tags.sortBy(t, t) == ['a', 'a', 'b']",
        "[3, 1].sortBy(a, [a, 2].sortBy(b, b)[0]) == [1, 3]",
        "'tacocat'.indexOf('', 3) == 3 && 'tacocat'.indexOf('a', 3) == 5 && 'tacocat'.indexOf('at', 3) == 5",
        "'ta©o©αT'.indexOf('©', 3) == 4 && 'ta©o©αT'.indexOf('©α', 5) == -1 && ''.indexOf('', 1) == 0",
        "'tacocat'.indexOf('a', 30) == -1 && 'tacocat'.indexOf('', 30) == 7",
        "'tacocat'.lastIndexOf('', 3) == 3 && 'tacocat'.lastIndexOf('a', 3) == 1",
        "'ta©o©αT'.lastIndexOf('©', 3) == 2 && 'ta©o©αT'.lastIndexOf('©α', 4) == 4",
        "'aα'.lastIndexOf('bb', 0) == -1 && 'hello wello'.lastIndexOf('ello', 6) == 1",
        "'bananananana'.lastIndexOf('nana', 7) == 6 && 'tacocat'.lastIndexOf('', 7) == 7",
        "'tacocat'.lastIndexOf('a', 30) == -1 && 'tacocat'.lastIndexOf('', 30) == 7",
    ] {
        assert_eq!(evaluate(source), Ok(true), "{source}");
    }
    for (source, expected) in [
        ("dyn([[1]]).flatten(-1) == []", "level must be non-negative"),
        ("lists.range('1') == []", "no such overload: lists.range"),
        ("[1, 2].sortBy(e, [e]) == []", "list elements must be comparable"),
        ("dyn([1, 'a']).sortBy(e, e) == []", "list elements must have the same type"),
        ("'tacocat'.indexOf('a', -1) == -1", "index out of range: -1"),
        ("'tacocat'.lastIndexOf('', -1) == -1", "index out of range: -1"),
    ] {
        assert_eq!(evaluate(source), Err(expected.to_string()), "{source}");
    }
    for (source, expected) in [
        ("{'a': 1}.sortBy(e, e) == []", "sortBy can only be applied to a list, identifier, comprehension"),
        ("[1].sortBy(1, 2) == []", "argument must be a simple name"),
        ("self.parts.sortBy(p, p.nam) == []", "undefined field 'nam'"),
    ] {
        let error = evaluate(source).unwrap_err();
        assert!(error.contains(expected), "{source}\n{error}");
    }
}

#[test]
fn errors_are_reported_when_a_rule_is_written_api_14() {
    for (source, expected) in [
        ("self.nam == 'x'", "compilation failed: ERROR: <input>:1:5: undefined field 'nam'"),
        ("slef.name == 'x'", "undeclared reference to 'slef' (in container '')"),
        ("self.name.lenght() == 1", "undeclared reference to 'lenght' (in container '')"),
        ("self.count == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.count + 1.0 == 2.0", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("self.name && true", "found no matching overload for '_&&_' applied to '(string, bool)'"),
        ("self.on + self.count == 1", "found no matching overload for '_+_' applied to '(bool, int)'"),
        ("dyn(1) + true == 1", "found no matching overload for '_+_' applied to '(dyn, bool)'"),
        ("self.ratio % 2.0 == 0.0", "found no matching overload for '_%_' applied to '(double, double)'"),
        ("-self.name == ''", "found no matching overload for '-_' applied to '(string)'"),
        (
            "self.at + self.at > self.at",
            "'_+_' applied to '(google.protobuf.Timestamp, google.protobuf.Times",
        ),
        ("self.at - self.at > self.at", "'_>_' applied to '(google.protobuf.Duration, google.protobuf.Times"),
        ("self.tags < self.tags", "found no matching overload for '_<_' applied to '(list(dyn), list(dyn))'"),
        ("self.count == null", "found no matching overload for '_==_' applied to '(int, null)'"),
        (
            "(self.on ? 1 : 'a') == 1",
            "found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        ("1 in self.tags", "found no matching overload for '@in' applied to '(int, list(dyn))'"),
        ("'name' in self", "found no matching overload for '@in' applied to '(string, object)'"),
        ("self.tags['a'] == 'a'", "found no matching overload for '_[_]' applied to '(list(dyn), string)'"),
        ("self['name'] == 'a'", "found no matching overload for '_[_]' applied to '(object, string)'"),
        ("self.all(k, true)", "expression of type 'object' cannot be range of a comprehension"),
        ("self.labels.all(k, v, v > 1)", "found no matching overload for '_>_' applied to '(string, int)'"),
        ("int(self.on) == 1", "found no matching overload for 'int' applied to '(bool)'"),
        ("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.name.getHours() == 1", "found no matching overload for 'getHours' applied to 'string.()'"),
        (
            "self.count.startsWith('a')",
            "found no matching overload for 'startsWith' applied to 'int.(string)'",
        ),
        ("self.name.x == 1", "type 'string' does not support field selection"),
        ("self.count.all(x, true)", "expression of type 'int' cannot be range of a comprehension"),
        ("self.parts.all(p, p.nam == 'x')", "undefined field 'nam'"),
        ("self.parts.filter(p, p.size > 1).all(p, p.nam == 'x')", "undefined field 'nam'"),
        ("self.metadata.labels.size() == 1", "undefined field 'labels'"),
        ("self.kind == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.name", "cel expression must evaluate to a bool"),
        ("null", "cel expression must evaluate to a bool"),
        ("self.name ==", "compilation failed: ERROR: <input>:1:13: "),
        ("self.name.matches('(')", "error parsing regexp: unclosed group"),
    ] {
        let error = evaluate(source).unwrap_err();
        assert!(error.contains(expected), "{source}\n{error}");
    }
}

/// From cel-go's `TestStringFormat`.
#[test]
fn strings_are_formatted_as_by_cel_go_api_14() {
    for (format, arguments, expected) in [
        ("no substitution", "", "no substitution"),
        ("min %d > max %d", "self.count, 2", "min 3 > max 2"),
        ("str is %s and some more", "'filler'", "str is filler and some more"),
        ("%%%s%% and also %%", "'text'", "%text% and also %"),
        ("é%sé", "self.name", "éwebé"),
        ("%.3f", "1.2345", "1.234"),
        ("%f", "12345.5", "12,345.500000"),
        ("%f %f %f", "'NaN', 'Infinity', '-Infinity'", "NaN ∞ -∞"),
        ("%e", "2.71828", "2.718280\u{202f}×\u{202f}10⁰⁰"),
        ("%.1e", "dyn(0.00123)", "1.2\u{202f}×\u{202f}10⁻⁰³"),
        ("%b %b %b", "-5, uint(64), true", "-101 1000000 1"),
        ("%o %o", "11, -11", "13 -13"),
        ("%x %X %x", "30, 6000, -30", "1e 1770 -1e"),
        ("%x", "'Hello world!'", "48656c6c6f20776f726c6421"),
        ("%X", "b'\\x00byte string'", "006279746520737472696E67"),
        ("%s %s", "2.71, 0.000000002", "2.71 2e-09"),
        ("%s", "[2.71, 0.0 / 0.0, 1.0 / 0.0]", "[2.710000, \"NaN\", \"+Inf\"]"),
        ("%s %s %s", "null, true, type('x')", "null true string"),
        ("%s %s", "duration('1h45m47s'), duration('2ns')", "6347s 0.000000002s"),
        ("%s %s", "self.at, b'xyz'", "2026-11-21T01:02:03Z xyz"),
        (
            "%s",
            "['a\"', 3.14, null, [9], timestamp('2023-02-03T23:31:20Z')]",
            "[\"a\\\"\", 3.140000, null, [9], timestamp(\"2023-02-03T23:31:20Z\")]",
        ),
        (
            "%s",
            "{'key5': b'xyz', 'key2': duration('2h'), 'key4': true, 1: [uint(2)]}",
            "{\"key2\":duration(\"7200s\"), \"key4\":true, \"key5\":b\"xyz\", 1:[2]}",
        ),
        (
            "%s %s",
            "self.parts, self.labels",
            "[{\"name\":\"x\", \"size\":1}, {\"name\":\"y\", \"size\":2}] {\"k\":\"v\", \"l\":\"w\"}",
        ),
    ] {
        let source = format!("'{format}'.format([{arguments}])");
        let (schema, object) = (schema(), object());
        let program = Program::compile(&source, &[("self", Type::Object(&schema))], &[Type::Text]).unwrap();
        let value = program.run(&[("self", Val::of_json(&object, Some(&schema)))], &mut Budget::default());
        assert_eq!(value.as_ref().ok().and_then(Val::as_text), Some(expected), "{source}: {value:?}");
    }
    let quoted = r#"strings.quote('a"\\é' + '\n\a') == '"a\\"\\\\é\\n\\a"'"#;
    assert_eq!(evaluate(quoted), Ok(true), "{quoted}");
}

/// A constant format string is checked with the rule, any other when the rule runs.
#[test]
fn a_bad_format_is_refused_api_14() {
    let clause = "could not parse formatting clause: ";
    let precision = format!("{clause}error while parsing precision: ");
    let convert = format!("{precision}error while converting precision to integer: strconv.Atoi: parsing ");
    let strings = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
                   types, durations, and timestamps";
    for (format, arguments, expected) in [
        ("%s %s", "'abc'", "index 1 out of range".to_string()),
        ("filler %", "1", "unexpected end of string".into()),
        ("%j", "123", format!("{clause}unrecognized formatting clause \"j\"")),
        ("%E", "0.5", format!("{clause}unrecognized formatting clause \"E\"")),
        ("%é", "0.5", format!("{clause}unrecognized formatting clause \"é\"")),
        ("%.34", "5.0", format!("{precision}could not find end of precision specifier")),
        ("%.f", "5.0", format!("{convert}\"\": invalid syntax")),
        ("%.99999999999999999999f", "5.0", format!("{convert}\"99999999999999999999\": value out of range")),
        ("%d", "5.2", "decimal clause can only be used on integers, was given double".into()),
        ("%d", "null", "decimal clause can only be used on integers, was given null_type".into()),
        ("%d", "[1]", "decimal clause can only be used on integers, was given list".into()),
        ("%f", "true", "fixed-point clause can only be used on doubles, was given bool".into()),
        ("%e", "1", "scientific clause can only be used on doubles, was given int".into()),
        ("%b", "'a'", "only integers and bools can be formatted as binary, was given string".into()),
        (
            "%x",
            "2.5",
            "only integers, byte buffers, and strings can be formatted as hex, was given double".into(),
        ),
        ("%o", "self.name", "octal clause can only be used on integers, was given string".into()),
    ] {
        let source = format!("'{format}'.format([{arguments}]) == ''");
        let error = evaluate(&source).unwrap_err();
        assert!(error.contains("compilation failed") && error.contains(&expected), "{source}\n{error}");
        let source = format!("'{format}'.format([dyn({arguments})]) == ''");
        let error = evaluate(&source).unwrap_err();
        assert!(error.contains(&expected), "{source}\n{error}");
        // Neither is constant.
        let source = format!("dyn('{format}').format([dyn({arguments})]) == ''");
        let error = evaluate(&source).unwrap_err();
        assert!(!error.contains("compilation failed") && error.ends_with(&expected), "{source}\n{error}");
    }
    for (source, expected) in [
        ("'%s'.format(['a', 'b']) == ''", "too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%s'.format('a') == ''", "found no matching overload for 'format' applied to 'string.(string)'"),
        ("'%s'.format([slef]) == ''", "undeclared reference to 'slef'"),
        ("strings.quote(1) == ''", "found no matching overload for 'strings.quote' applied to '(int)'"),
        ("isSemver([1])", "found no matching overload for 'isSemver' applied to '(list(dyn))'"),
        ("'%s'.format([quantity('1')]) == ''", &format!("error during formatting: {strings}, was given kub")),
        ("'%s'.format([[ip('::1')]]) == ''", "error during formatting: no formatting function for net.IP"),
        (
            "'%s'.format([{1.5: 1}]) == ''",
            "error during formatting: no formatting function for map key of type double",
        ),
        (
            "'%s'.format([b'\\xff']) == ''",
            "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
        ),
    ] {
        let error = evaluate(source).unwrap_err();
        assert!(error.contains(expected), "{source}\n{error}");
    }
}

/// From Kubernetes' `TestSemver`.
#[test]
fn versions_are_compared_as_in_kubernetes_api_14() {
    for source in [
        "isSemver('1.2.3-beta.1+build.1') && !isSemver('') && !isSemver('v1.0.0') && !isSemver(' 1.0.0')",
        "!isSemver('1. 0.0') && !isSemver('1.0.0 ') && !isSemver('01.01.01') && !isSemver('1.1')",
        "!isSemver('', true) && !isSemver(' 1.0.0', true) && isSemver('v1.0.0', true) && isSemver('1', true)",
        "isSemver('01.01.01', true) && isSemver('1.1', true) && !isSemver('1.1', self.count == 1)",
        "semver('v01.01', true) == semver('1.1.0') && semver('1.2.3') != semver('1.0.0')",
        "semver('1.2.3+a') == semver('1.2.3+b') && semver('1.2.3') in [semver('1.2.3')]",
        "semver('1.0.0').isLessThan(semver('1.2.3')) && !semver('1.0.0').isLessThan(semver('1.0.0'))",
        "semver('1.2.3').isGreaterThan(semver('1.2.3-rc.1')) && semver('1.0.0').compareTo(semver('1.2.3')) == -1",
        "semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('1.10.0').compareTo(semver('1.9.0')) == 1",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    ] {
        assert_eq!(evaluate(source), Ok(true), "{source}");
    }
    for (source, expected) in [
        ("semver('v1.0') == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        ("semver('1.0.0').isLessThan(quantity('1'))", "no such overload: isLessThan"),
        ("string(dyn(semver('1.0.0'))) == ''", "no such overload: string"),
    ] {
        assert_eq!(evaluate(source), Err(expected.to_string()), "{source}");
    }
}

/// Schemas rarely describe metadata further than as an object.
#[test]
fn a_rule_of_a_whole_object_finds_its_name_api_14() {
    let schema: JSONSchemaProps =
        serde_json::from_value(json!({"type": "object", "properties": {"metadata": {"type": "object"},
            "spec": {"type": "object"}}}))
        .unwrap();
    let compiled =
        |type_| Program::compile("self.metadata.name == 'cluster'", &[("self", type_)], &[Type::Bool]);
    assert!(compiled(Type::Object(&schema)).is_ok());
    assert!(compiled(Type::Schema(&schema)).is_err_and(|why| why.contains("undefined field 'name'")));
}

#[test]
fn errors_of_a_run_are_in_cels_words_api_14() {
    for (source, expected) in [
        ("self.labels['none'] == 'x'", "no such key: none"),
        ("self.tags[7] == 'x'", "index out of bounds: 7"),
        ("1 / (self.count - 3) == 1", "division by zero"),
        ("9223372036854775807 + self.count == 1", "integer overflow"),
        ("int(9223372036854775808.0) == 1", "integer overflow"),
        ("int(-9223372036854775808.0) == 1", "integer overflow"),
        ("int(0.0 / 0.0) == 1", "integer overflow"),
        ("uint(18446744073709551616.0) == uint(1)", "unsigned integer overflow"),
        ("uint(-1.0) == uint(1)", "unsigned integer overflow"),
        ("dyn(self.name) + 1 == 2", "no such overload: _+_"),
        ("0.0 / 0.0 < 1.0", "NaN values cannot be ordered"),
        ("self.at.getHours('+1:60') == 1", "unknown time zone +1:60"),
        ("self.port > 1", "no such overload: _>_"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("duration('soon') == duration('1s')", "type conversion error from 'string' to 'duration': soon"),
        (
            "timestamp('2026-11-21 01:02:03Z') == self.at",
            "type conversion error from 'string' to 'timestamp': 2026-11-21 01:02:03Z",
        ),
        // A duration is 64 bits of nanoseconds.
        (
            "duration('3000000h') > duration('1s')",
            "type conversion error from 'string' to 'duration': 3000000h",
        ),
        (
            "duration('-9223372036854775808s') < duration('1s')",
            "type conversion error from 'string' to 'duration': -9223372036854775808s",
        ),
        ("duration('2562047h') + duration('2562047h') > duration('1s')", "duration overflow"),
        (
            "timestamp('9999-12-30T22:00:00Z') - timestamp('0001-01-01T00:00:00Z') > duration('1h')",
            "duration overflow",
        ),
        ("dyn([1, 'a']).sort() == [1]", "list elements must have the same type"),
        ("dyn([[1], [2]]).sort() == [1]", "list elements must be comparable"),
    ] {
        assert_eq!(evaluate(source), Err(expected.to_string()), "{source}");
    }
}

/// A field may hold integers and strings side by side, which have no order.
#[test]
fn a_list_of_anything_is_sorted_or_refused_api_14() {
    let of = |items: Value| json!({"type": "object", "properties": {"l": {"type": "array", "items": items}}});
    let either = of(json!({"x-kubernetes-int-or-string": true}));
    let sorted = |schema: &Value, source: &str, list: Value| {
        let schema: JSONSchemaProps = serde_json::from_value(schema.clone()).unwrap();
        let program = Program::compile(source, &[("self", Type::Object(&schema))], &[Type::Bool]).unwrap();
        let object = json!({"l": list});
        program
            .run(&[("self", Val::of_json(&object, Some(&schema)))], &mut Budget::default())
            .map(|value| matches!(value, Val::Bool(true)))
            .map_err(|error| error.to_string())
    };
    // Long enough for the sort to detect an inconsistent order.
    let number = |n: u64| n.wrapping_mul(6_364_136_223_846_793_005) >> 40;
    let mixed = |n: u64| if number(n) % 3 == 0 { json!(number(n).to_string()) } else { json!(number(n)) };
    for length in 20..120 {
        let result = sorted(&either, "self.l.sort().size() > 0", (0..length).map(mixed).collect());
        assert_eq!(result, Err("list elements must have the same type".into()), "{length}");
    }
    let numbers: Value = (0..100).map(|n| json!(number(n))).collect();
    assert_eq!(sorted(&either, "self.l.sort().isSorted()", numbers), Ok(true));
    let doubles: Value = (0..100).map(|n| json!((number(n) % 10) as f64 / 2.0)).collect();
    let not_numbers = "self.l.map(x, x == 1.5 ? 0.0 / 0.0 : x == 2.5 ? -0.0 : x).sort().size() == 100";
    assert_eq!(sorted(&of(json!({"type": "number"})), not_numbers, doubles), Ok(true));
}

/// The budget stops a hostile rule.
#[test]
fn a_hostile_rule_ends_api_14() {
    let many = json!({"type": "array", "items": {"type": "integer"}});
    let schema: JSONSchemaProps = serde_json::from_value(many).unwrap();
    let object = json!((0..1000).collect::<Vec<_>>());
    let deep = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    for source in [
        "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))",
        "self.map(a, self.map(b, self.map(c, a))).size() > 0",
        "lists.range(9000000000000000000).size() > 0",
        "self.all(a, self.sortBy(b, -b).size() > 0)",
        "self.map(a, self).map(a, a + a).map(a, a + a + a + a).map(a, a + a + a + a).size() > 0",
        "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].map(b, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').join('') \
         .replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyy').replace('y', 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz') \
         .replace('z', 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz').size() > 0)",
        "self.map(a, string(a)).all(a, self.map(b, string(b)).all(b, a.matches(b) || true))",
        // A pattern with repetitions is tried at every letter, at its whole length.
        "self.map(a, 'xxxxxxxxxxxxxxxxxxxx').join('').matches('(?:[a-z]{30}){200}y')",
        // Strings that are traversed again each time.
        "cel.bind(t, self.map(a, 'xxxxxxxxxx&').join(''), cel.bind(u, url('/?' + t), \
         self.all(a, self.all(b, u.getQuery().size() > 0))))",
        "cel.bind(t, self.map(a, 'xxxxxxxxxx').join(''), self.all(a, self.all(b, t <= t)))",
        "cel.bind(t, self.map(a, 'AAAAAAAAAA').join(''), t.findAll('.*[^A-Z]|[A-Z]').size() > 0)",
        // Each comparison of versions reads them.
        "cel.bind(v, semver('1.0.0-' + self.map(a, 'xxxxxxxxxx').join('')), self.all(a, self.all(b, v == v)))",
        "cel.bind(v, semver('1.0.0-' + self.map(a, 'xxxxxxxxxx').join('')), \
         self.all(a, self.all(b, v.compareTo(v) == 0)))",
        // A format makes a long text of little.
        "'%.9999999f%.9999999f'.format([1.0, 1.0]) == ''",
        "'%.99999999999999f'.format([1.0]) == ''",
        "self.all(a, '%s'.format([self.map(b, self.map(c, b))]).size() > 0)",
        "cel.bind(t, self.map(a, 'xxxxxxxxxx').join(''), self.all(a, self.all(b, '%x'.format([t]) != '')))",
        // A computed map is searched linearly.
        "cel.bind(a, self.map(i, i), cel.bind(b, a + a + a + a + a + a + a + a, cel.bind(c, b + b + b + b, \
         cel.bind(m, c.transformMap(i, v, v), m == m))))",
    ] {
        let program = Program::compile(source, &[("self", Type::Schema(&schema))], &[Type::Bool])
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        let value = program.run(&[("self", Val::of_json(&object, Some(&schema)))], &mut Budget::default());
        assert_eq!(value.err(), Some(Error::Budget), "{source}");
    }
    // Bytes are decoded again each time, from a field or an item.
    let bytes = json!({"type": "object", "properties": {"b": {"type": "string", "format": "byte"},
        "l": {"type": "array", "items": {"type": "string", "format": "byte"}}}});
    let schema: JSONSchemaProps = serde_json::from_value(bytes).unwrap();
    let object = json!({"b": "AAAA".repeat(20_000), "l": ["AAAA".repeat(20_000)]});
    let often = "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4].all(c, ";
    for each in
        ["has(self.b)", "self.b != b''", "self.l[0] != b''", "!(b'' in self.l)", "self.l.all(i, true)"]
    {
        let source = format!("{often}{each})))");
        let program = Program::compile(&source, &[("self", Type::Object(&schema))], &[Type::Bool]).unwrap();
        let value = program.run(&[("self", Val::of_json(&object, Some(&schema)))], &mut Budget::default());
        assert_eq!(value.err(), Some(Error::Budget), "{each}");
    }
    // A value that contains itself twice, forty times over, is small and is not traversed.
    let doubled = |last: &str| {
        let bound: Vec<String> = (1..40).map(|i| format!("cel.bind(a{i}, [a{0}, a{0}], ", i - 1)).collect();
        format!("cel.bind(a0, [1, 1], {}{last}{}", bound.concat(), ")".repeat(40))
    };
    for last in [
        "a39 == a39", "[a39, a39].distinct().size() == 1", "[a39].indexOf(a39) == 0",
        "a39.flatten(50).size() > 0", "{1: a39} == {1: a39}", "a39 in [a39]",
        "sets.equivalent([a39], [a39])", "optional.of(a39) == optional.of(a39)", "'%s'.format([a39]) == ''",
        "'%s'.format([{1: a39}]) == ''",
    ] {
        let program = Program::compile(&doubled(last), &[], &[Type::Bool]).unwrap();
        let value = program.run(&[], &mut Budget::default());
        assert_eq!(value.err(), Some(Error::Budget), "{last}");
    }
    let whole = Program::compile(&doubled("a39"), &[], &[Type::List]).unwrap();
    let whole = whole.run(&[], &mut Budget::default()).unwrap();
    assert_eq!(whole.to_json(&mut Budget::default()), Err(Error::Budget));
    for source in [
        deep("(", "true", ")", 2000),
        deep("[", "1", "]", 1000),
        format!("{}1 == 1", "1+".repeat(2400)),
        format!("self{} == 1", ".a".repeat(2000)),
        format!("self{} == 1", "[0]".repeat(1600)),
        format!("true{}", " ? true : true".repeat(350)),
        format!("true{}", " && true".repeat(3000)),
        "x".repeat(20_000),
        "'".into(),
        "\u{0}\u{ffff}".into(),
        "self.".into(),
        "{{{".into(),
    ] {
        assert!(Program::compile(&source, &[("self", Type::Dyn)], &[Type::Bool]).is_err(), "{source:.20}");
    }
    // Signs cancel each other; reading them terminates either way.
    for source in [deep("!", "true", "", 4001), format!("{}1 == 1", "-".repeat(4001))] {
        let _ = Program::compile(&source, &[("self", Type::Dyn)], &[Type::Bool]);
    }
    // The rules of one object share a budget.
    let program =
        Program::compile("self.all(a, self.all(b, a >= b || b > a))", &[("self", Type::Dyn)], &[Type::Bool]);
    let (program, mut budget) = (program.unwrap(), Budget::default());
    let small = json!((0..200).collect::<Vec<_>>());
    let run = |budget: &mut Budget| program.run(&[("self", Val::of_json(&small, None))], budget).is_ok();
    let ran = (0..1000).take_while(|_| run(&mut budget)).count();
    assert!((1..1000).contains(&ran), "{ran}");
}

/// Kubernetes' `x-kubernetes-list-type`: sets and keyed lists are compared and concatenated regardless of
/// order.
#[test]
fn lists_are_compared_and_joined_as_their_schema_says_api_14() {
    let schema: JSONSchemaProps = serde_json::from_value(json!({"type": "object", "properties": {
        "plain": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}}}))
    .unwrap();
    let old =
        json!({"plain": ["a", "b"], "set": ["a", "b"], "keyed": [{"k": "x", "v": 1}, {"k": "y", "v": 2}]});
    let new =
        json!({"plain": ["b", "a"], "set": ["b", "a"], "keyed": [{"k": "y", "v": 2}, {"k": "x", "v": 1}]});
    let more = json!({"plain": ["a"], "set": ["b", "c"], "keyed": [{"k": "x", "v": 9}, {"k": "z", "v": 3}]});
    for source in [
        "self.plain != oldSelf.plain && self.set == oldSelf.set && self.keyed == oldSelf.keyed",
        "self.set != more.set && self.keyed != more.keyed",
        "oldSelf.plain + more.plain == ['a', 'b', 'a']",
        "oldSelf.set + more.set == ['c', 'b', 'a'] && size(oldSelf.set + more.set) == 3",
        "(oldSelf.set + more.set).map(x, x) == ['a', 'b', 'c']",
        "(oldSelf.keyed + more.keyed).map(e, e.k + string(e.v)) == ['x9', 'y2', 'z3']",
        "(oldSelf.keyed + more.keyed) == (more.keyed + oldSelf.keyed + more.keyed)",
        "(oldSelf.set + more.set)[2] == 'c' && 'c' in oldSelf.set + more.set",
    ] {
        let of = Type::Object(&schema);
        let variables = [("self", of), ("oldSelf", of), ("more", of)];
        let program = Program::compile(source, &variables, &[Type::Bool]).unwrap();
        let values = [("self", &new), ("oldSelf", &old), ("more", &more)];
        let values = values.map(|(name, value)| (name, Val::of_json(value, Some(&schema))));
        let value = program.run(&values, &mut Budget::default());
        assert!(matches!(value, Ok(Val::Bool(true))), "{source}: {value:?}");
    }
}
