//! Tables of expressions with their trees and errors.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::{Expr, ExprKind, Literal, parse};
use crate::cel::{Budget, DeclType, Environment, Program, Type, Val};

/// Writes a tree: calls as `name(target; arguments)`, optional parts with a question mark.
fn text(node: &Expr) -> String {
    let all = |nodes: &[Expr]| nodes.iter().map(text).collect::<Vec<_>>().join(" ");
    let optional = |is_optional: bool| if is_optional { "?" } else { "" };
    match &node.kind {
        ExprKind::Literal(Literal::Text(value)) => format!("{value:?}"),
        ExprKind::Literal(Literal::Bytes(value)) => format!("{value:?}"),
        ExprKind::Literal(Literal::Bool(value)) => value.to_string(),
        ExprKind::Literal(Literal::Int(value)) => value.to_string(),
        ExprKind::Literal(Literal::Uint(value)) => format!("{value}u"),
        ExprKind::Literal(Literal::Double(value)) => format!("{value:?}"),
        ExprKind::Literal(Literal::Null) => "null".into(),
        ExprKind::Ident(name) | ExprKind::Composed(name) => name.clone(),
        ExprKind::Select(select) => {
            format!("{}.{}{}", text(&select.operand), select.field, if select.test { "~" } else { "" })
        }
        ExprKind::Call(call) => {
            let target = call.target.as_deref().map_or(String::new(), |target| text(target) + "; ");
            format!("{}({target}{})", call.name, all(&call.args))
        }
        ExprKind::List(items, positions) => {
            let items = items.iter().enumerate();
            let items = items.map(|(i, item)| optional(positions.contains(&i)).to_string() + &text(item));
            format!("[{}]", items.collect::<Vec<_>>().join(" "))
        }
        ExprKind::Map(entries) => {
            let entries = entries.iter().map(|entry| {
                format!("{}{}: {}", optional(entry.optional), text(&entry.key), text(&entry.value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        ExprKind::Message(message) => {
            let fields = message
                .fields
                .iter()
                .map(|field| format!("{}{}: {}", optional(field.optional), field.name, text(&field.value)));
            format!("{}{{{}}}", message.type_name, fields.collect::<Vec<_>>().join(", "))
        }
        ExprKind::Comprehension(fold) => {
            let parts = [&fold.init, &fold.condition, &fold.step, &fold.result].map(text).join(" | ");
            format!("for {} in {} | {parts}", fold.variable, text(&fold.range))
        }
        ExprKind::Bind { variable, value, expression } => {
            format!("let {variable} = {} | {}", text(value), text(expression))
        }
        ExprKind::OptionalMap { of, variable, expression, flat } => {
            format!("some {variable} in {} | {} {flat}", text(of), text(expression))
        }
        ExprKind::Pairs(pairs) => {
            let filter = pairs.filter.as_ref().map_or(String::new(), |filter| text(filter) + " | ");
            let (range, expression) = (text(&pairs.range), text(&pairs.expression));
            format!("{:?} {} {} in {range} | {filter}{expression}", pairs.kind, pairs.key, pairs.value)
        }
    }
}

fn tree(source: &str) -> String {
    parse(source).map_or_else(|error| error.message, |parsed| text(&parsed))
}

#[test]
fn operators_bind_as_in_cel_go_api_14() {
    for (source, expected) in [
        ("a || b && c == d + e * f", "_||_(a _&&_(b _==_(c _+_(d _*_(e f)))))"),
        ("a * b + c < d && e || f", "_||_(_&&_(_<_(_+_(_*_(a b) c) d) e) f)"),
        ("a - b - c", "_-_(_-_(a b) c)"),
        ("a - (b - c)", "_-_(a _-_(b c))"),
        ("a / b % c", "_%_(_/_(a b) c)"),
        ("a < b <= c > d >= e != f", "_!=_(_>=_(_>_(_<=_(_<_(a b) c) d) e) f)"),
        ("a in b in c", "@in(@in(a b) c)"),
        ("1in b", "@in(1 b)"),
        ("a ? b : c ? d : e", "_?_:_(a b _?_:_(c d e))"),
        ("a || b ? c || d : e || f", "_?_:_(_||_(a b) _||_(c d) _||_(e f))"),
        ("a?.5:b", "_?_:_(a 0.5 b)"),
        // Chains of these are balanced.
        ("a && b && c", "_&&_(_&&_(a b) c)"),
        ("a && b && c && d", "_&&_(_&&_(a b) _&&_(c d))"),
        ("a || b || c || d || e", "_||_(_||_(_||_(a b) c) _||_(d e))"),
        ("a && (b && c)", "_&&_(a _&&_(b c))"),
        ("!a.b && -c[0] < d", "_&&_(!_(a.b) _<_(-_(_[_](c 0)) d))"),
        ("!!a || !!!b", "_||_(a !_(b))"),
        ("--a - ---b", "_-_(a -_(b))"),
        ("a--1", "_-_(a -1)"),
        ("--1 + ---1", "_+_(1 -_(1))"),
        ("-1.size()", "size(-1; )"),
        ("!-1", "!_(-1)"),
    ] {
        assert_eq!(tree(source), expected, "{source}");
    }
}

#[test]
fn operands_have_fields_calls_and_entries_api_14() {
    for (source, expected) in [
        ("a.b.c[d].e", "_[_](a.b.c d).e"),
        (".a.b", ".a.b"),
        (".f(a) + g()", "_+_(.f(a) g())"),
        ("a.f(b, c)\n. g ( )", "g(f(a; b c); )"),
        ("a.?b.c[?0]", "_[?_](_?._(a \"b\").c 0)"),
        ("a.as.loop()", "loop(a.as; )"),
        ("[]", "[]"),
        ("[,]", "[]"),
        ("[a, ?b, ?c ? d : e,]", "[a ?b ?_?_:_(c d e)]"),
        ("{,}", "{}"),
        ("{a: b, ?c: d ? e : f,}", "{a: b, ?c: _?_:_(d e f)}"),
        ("T{}", "T{}"),
        (".a . b.C{as: 1, ?d: e,}.f", ".a.b.C{as: 1, ?d: e}.f"),
        ("a // b\n// c\r\n\t+\u{c}d", "_+_(a d)"),
    ] {
        assert_eq!(tree(source), expected, "{source}");
    }
}

#[test]
fn literals_have_values_api_14() {
    for (source, expected) in [
        ("[true, false, null]", "[true false null]"),
        (
            "[0, 007, 0xfF, 9223372036854775807, -9223372036854775808]",
            "[0 7 255 9223372036854775807 -9223372036854775808]",
        ),
        ("[-0x8000000000000000, - 1]", "[-9223372036854775808 -1]"),
        ("[0u, 18446744073709551615U, 0xFu]", "[0u 18446744073709551615u 15u]"),
        ("[1.5, .5, 1e3, 2.5E-1, 1e+2, -0.0]", "[1.5 0.5 1000.0 0.25 100.0 -0.0]"),
        (r#"['a"b', "a'b", '''a'b''c''', """a"b""c"""]"#, r#"["a\"b" "a'b" "a'b''c" "a\"b\"\"c"]"#),
        ("['''a\r\nb\rc''', '', \"\"\"\"\"\"]", r#"["a\nb\nc" "" ""]"#),
        (r"'\a\b\f\n\r\t\v\\\?\'\`'", r#""\u{7}\u{8}\u{c}\n\r\t\u{b}\\?'`""#),
        (r"'\x41\X5a\u00e9\U0001F600\101\377'", "\"AZé😀Aÿ\""),
        (r#"[r'\n', R"\'", r'''\''', r""""""]"#, r#"["\\n" "\\'" "\\" ""]"#),
        (r"[b'\xff\377a\n', B'é', br'\x', bR'''''']", "[[255, 255, 97, 10] [195, 169] [92, 120] []]"),
    ] {
        assert_eq!(tree(source), expected, "{source}");
    }
}

#[test]
fn macros_are_expanded_as_by_cel_go_api_14() {
    for (source, expected) in [
        ("has(a.b.c)", "a.b.c~"),
        ("a.all(x, p)", "for x in a | true | @not_strictly_false(@result) | _&&_(@result p) | @result"),
        (
            "a.exists(x, p)",
            "for x in a | false | @not_strictly_false(!_(@result)) | _||_(@result p) | @result",
        ),
        ("a.exists_one(x, p)", "for x in a | 0 | true | _?_:_(p _+_(@result 1) @result) | _==_(@result 1)"),
        ("a.existsOne(x, p)", "for x in a | 0 | true | _?_:_(p _+_(@result 1) @result) | _==_(@result 1)"),
        ("a.map(x, y)", "for x in a | [] | true | _+_(@result [y]) | @result"),
        ("a.map(x, p, y)", "for x in a | [] | true | _?_:_(p _+_(@result [y]) @result) | @result"),
        ("a.filter(x, p)", "for x in a | [] | true | _?_:_(p _+_(@result [x]) @result) | @result"),
        ("cel.bind(x, a, x.b)", "let x = a | x.b"),
        ("a.optMap(x, x.b)", "some x in a | x.b false"),
        ("a.optFlatMap(x, x.?b)", "some x in a | _?._(x \"b\") true"),
        ("a.all(k, v, p)", "All k v in a | p"),
        ("a.exists(k, v, p)", "Exists k v in a | p"),
        ("a.existsOne(k, v, p)", "ExistsOne k v in a | p"),
        ("a.transformList(k, v, y)", "List k v in a | y"),
        ("a.transformMap(k, v, p, y)", "Map k v in a | p | y"),
        ("a.transformMapEntry(k, v, {k: v})", "MapEntry k v in a | {k: v}"),
        // Functions of the same names.
        ("all(x, p)", "all(x p)"),
        ("a.has(b)", "has(a; b)"),
        (".has(a.b)", ".has(a.b)"),
        ("a.map(x)", "map(a; x)"),
        ("a.bind(x, y, z)", "bind(a; x y z)"),
        ("has(a)", "invalid argument to has() macro"),
        ("a.all(1, p)", "argument must be a simple name"),
        ("a.filter(x.y, p)", "argument must be a simple name"),
        ("a.transformMap(k, 1, p)", "argument must be a simple name"),
        ("cel.bind('x', 1, 2)", "argument must be a simple name"),
    ] {
        assert_eq!(tree(source), expected, "{source}");
    }
}

/// The error's column is the token's that stands for an expression.
#[test]
fn errors_name_the_position_of_an_expression_api_14() {
    for (source, line, column) in [
        ("true && \n  1 + 1.0 == 2.0", 2, 5),
        ("'é' == 'x' && none", 1, 15),
        ("none.a", 1, 1),
        ("true && ''.a", 1, 11),
        ("true && true.startsWith('')", 1, 24),
        ("f(1)", 1, 2),
        ("!1 && true", 1, 1),
        ("1 ? true : false", 1, 3),
        ("true && T{}", 1, 10),
        ("true && 1.all(x, true)", 1, 9),
        ("[1].all(x, true && none)", 1, 20),
        ("[1].all(x, 1)", 1, 8),
        ("-1", 1, 1),
    ] {
        let error = Program::compile(source, &[], &[Type::Bool]).unwrap_err();
        let position = format!("ERROR: <input>:{line}:{column}: ");
        assert!(error.contains(&position), "{source}\n{error}");
    }
}

#[test]
fn syntax_errors_read_as_those_of_cel_go_api_14() {
    let expression = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                      NUM_UINT, STRING, BYTES, IDENTIFIER}";
    for (source, column, expected) in [
        ("", 1, format!("Syntax error: mismatched input '<EOF>' {expression}")),
        ("a ==", 5, format!("Syntax error: mismatched input '<EOF>' {expression}")),
        ("f(a, )", 6, format!("Syntax error: mismatched input ')' {expression}")),
        ("[,a]", 3, "Syntax error: mismatched input 'a' expecting ']'".into()),
        ("!-a", 2, format!("Syntax error: mismatched input '-' {expression}")),
        ("-!a", 2, format!("Syntax error: mismatched input '!' {expression}")),
        ("a ? b", 6, "Syntax error: mismatched input '<EOF>' expecting ':'".into()),
        ("(a", 3, "Syntax error: mismatched input '<EOF>' expecting ')'".into()),
        ("a b", 3, "Syntax error: extraneous input 'b' expecting <EOF>".into()),
        ("a().b{}", 6, "Syntax error: extraneous input '{' expecting <EOF>".into()),
        ("a.?b(c)", 5, "Syntax error: extraneous input '(' expecting <EOF>".into()),
        ("a.in", 3, "Syntax error: mismatched input 'in' expecting IDENTIFIER".into()),
        ("a.", 3, "Syntax error: mismatched input '<EOF>' expecting IDENTIFIER".into()),
        ("a & b", 3, "Syntax error: token recognition error at: '&'".into()),
        ("a @", 3, "Syntax error: token recognition error at: '@'".into()),
        ("'é' + é", 7, "Syntax error: token recognition error at: 'é'".into()),
        ("a == 'b", 6, "Syntax error: token recognition error at: ''b'".into()),
        ("'''b''", 1, "Syntax error: token recognition error at: ''''b'''".into()),
        ("a.`b-c`", 3, "unsupported syntax: '`'".into()),
        ("a + if", 5, "reserved identifier: if".into()),
        ("namespace(1)", 1, "reserved identifier: namespace".into()),
        ("1 + 9223372036854775808", 5, "invalid int literal".into()),
        ("-9223372036854775809", 1, "invalid int literal".into()),
        ("--9223372036854775808", 3, "invalid int literal".into()),
        ("18446744073709551616u", 1, "invalid uint literal".into()),
        ("1e309", 1, "invalid double literal".into()),
        (r"'\q'", 1, r"invalid string literal: invalid escape \q".into()),
        (r"'\x4'", 1, r"invalid string literal: invalid escape \x".into()),
        (r"'\400'", 1, r"invalid string literal: invalid escape \4".into()),
        (r"'\ud800'", 1, "invalid string literal: invalid unicode code point".into()),
        (r"b'\u0041'", 1, r"invalid bytes literal: invalid escape \u".into()),
    ] {
        let error = Program::compile(source, &[], &[Type::Dyn]).unwrap_err();
        let mark = ".".repeat(column - 1);
        let expected =
            format!("compilation failed: ERROR: <input>:1:{column}: {expected}\n | {source}\n | {mark}^");
        assert_eq!(error, expected, "{source}");
    }
}

/// Hostile nesting in the longest rule ends on half the stack of a worker thread, even unoptimized.
#[test]
fn deep_nesting_is_refused_on_a_small_stack_api_14() {
    const LENGTH: usize = 5 * 1024;
    let nestings = [
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("[?", "a", "]"),
        ("{1:", "1", "}"),
        ("{", "1", ":1}"),
        ("T{a:", "1", "}"),
        ("f(", "1", ")"),
        ("a.f(", "1", ")"),
        ("a[", "1", "]"),
        ("a[?", "1", "]"),
        ("!(", "a", ")"),
        ("-(", "a", ")"),
        ("!", "a", ""),
        ("-", "a", ""),
        ("-", "1", ""),
        ("a?b:", "c", ""),
        ("a?(", "b", "):c"),
        ("(", "a", "?b:c)"),
        ("1+", "1", ""),
        ("1+(", "1", ")"),
        ("(", "1", "+1)"),
        ("1-", "1", ""),
        ("1*", "1", ""),
        ("a==", "a", ""),
        ("a in ", "a", ""),
        ("a&&", "a", ""),
        ("a||", "a", ""),
        ("a&&b||", "c", ""),
        ("a&&(", "a", ")"),
        ("", "a", ".b"),
        ("", "a", ".?b"),
        ("", "a", "[0]"),
        ("", "a", ".f()"),
        ("", "a", ".all(x,x)"),
        ("", "a", ".map(x,x)"),
        ("a.all(x,", "x", ")"),
        ("a.map(x,x,", "x", ")"),
        ("a.sortBy(x,", "x", ")"),
        ("a.all(k,v,", "k", ")"),
        ("cel.bind(x,", "1", ",x)"),
        ("cel.bind(x,x,", "1", ")"),
        ("a.optMap(x,", "1", ")"),
        ("has(", "a", ".b)"),
        ("'", "a", "'"),
        ("'''", "a", "'''"),
        ("\\", "a", "'"),
        ("//", "a", "\n"),
        (".", "a", "."),
        ("?", "a", ":"),
    ];
    let compile = move || {
        let schema = JSONSchemaProps { type_: Some("object".into()), ..JSONSchemaProps::default() };
        let declared = DeclType::of(&schema, true).unwrap();
        for (open, middle, close) in nestings {
            for count in [50, 90, 101, 240, 250, 251, LENGTH] {
                let count = count.min((LENGTH - middle.len()) / (open.len() + close.len()));
                let whole = format!("{}{middle}{}", open.repeat(count), close.repeat(count));
                let count = LENGTH / open.len().max(1);
                let unclosed = if open.is_empty() { String::new() } else { open.repeat(count) };
                for source in [whole, unclosed] {
                    let variables = ["a", "b", "c"].map(|name| (name, Type::Dyn));
                    let environment = Environment::of(variables.to_vec()).with_sizes(Some(&declared));
                    if let Ok(program) = Program::compile_in(&source, &environment, &[Type::Dyn]) {
                        let values = ["a", "b", "c"].map(|name| (name, Val::Bool(true)));
                        drop(program.run(&values, &mut Budget::default()));
                    }
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(compile).unwrap().join().unwrap();
}

#[test]
fn nesting_is_limited_as_in_cel_go_api_14() {
    let nested = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    assert_eq!(tree(&nested(249)), "1");
    for source in [nested(250), format!("a{}", ".b".repeat(250)), format!("a{}", "+a".repeat(250))] {
        assert_eq!(tree(&source), "expression recursion limit exceeded: 250");
    }
}
