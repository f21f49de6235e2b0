//! The expressions of a policy, compiled: found faulty when it is written, judged with each request.

use std::collections::HashSet;
use std::sync::LazyLock;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingAdmissionPolicySpec, Mutation as GivenMutation, ValidatingAdmissionPolicySpec,
    Validation as GivenValidation, Variable,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::json;

use crate::cel::{Environment, Program, Type};
use crate::validate::{FieldErrors, Path, names};

/// A policy may have so many expressions. Reading one takes a while, and whoever writes the policy waits.
const MAX_EXPRESSIONS: usize = 400;
/// And they may have so many bytes together.
const MAX_BYTES: usize = 256 * 1024;
/// Conditions of a match there may be, as in Kubernetes.
pub(crate) const MAX_MATCH_CONDITIONS: usize = 64;
const MAX_AUDIT_ANNOTATIONS: usize = 20;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// What an `AdmissionRequest` has, for expressions that read `request`.
static REQUEST: LazyLock<JSONSchemaProps> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = |names: &[&str]| -> serde_json::Map<String, serde_json::Value> {
        names.iter().map(|name| ((*name).to_string(), text.clone())).collect()
    };
    let kind = json!({"type": "object", "properties": texts(&["group", "version", "kind"])});
    let resource = json!({"type": "object", "properties": texts(&["group", "version", "resource"])});
    let groups = json!({"type": "array", "items": text});
    let user = json!({"type": "object", "properties": {"username": text, "uid": text, "groups": groups,
        "extra": {"type": "object", "additionalProperties": groups}}});
    let mut fields = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    fields.extend([
        ("kind".into(), kind.clone()),
        ("requestKind".into(), kind),
        ("resource".into(), resource.clone()),
        ("requestResource".into(), resource),
        ("userInfo".into(), user),
        ("dryRun".into(), json!({"type": "boolean"})),
        ("options".into(), json!({})),
    ]);
    serde_json::from_value(json!({"type": "object", "properties": fields})).unwrap_or_default()
});

/// The expressions of a policy.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    /// What must hold for the policy to be asked at all, by name.
    pub(crate) conditions: Vec<(String, Program)>,
    /// What the others read as `variables.NAME`; each may read those before it.
    pub(crate) variables: Vec<(String, Program)>,
    pub(crate) validations: Vec<Validation>,
    pub(crate) mutations: Vec<Mutation>,
}

/// What is made of an object.
#[derive(Debug)]
pub(crate) enum Mutation {
    /// A configuration that is merged into it.
    Apply(Program),
    /// A list of steps that change it.
    JsonPatch(Program),
}

/// What must hold.
#[derive(Debug)]
pub(crate) struct Validation {
    /// As it was written.
    pub(crate) text: String,
    pub(crate) program: Program,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<Program>,
    pub(crate) reason: Option<String>,
}

impl Expressions {
    /// Compiles those of a validating policy; what is wrong with them goes to `errors`.
    pub(crate) fn of_validating(
        errors: &mut FieldErrors,
        name: &str,
        spec: &ValidatingAdmissionPolicySpec,
    ) -> Self {
        let path = Path::root("spec");
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let conditions = compiler.conditions(
            errors,
            &path.child("matchConditions"),
            spec.match_conditions.as_deref().unwrap_or_default(),
        );
        let variables = compiler.variables(
            errors,
            &path.child("variables"),
            spec.variables.as_deref().unwrap_or_default(),
        );
        let given = spec.validations.as_deref().unwrap_or_default();
        let annotations = spec.audit_annotations.as_deref().unwrap_or_default();
        if given.is_empty() && annotations.is_empty() {
            for field in ["validations", "auditAnnotations"] {
                let why = "validations or auditAnnotations must contain at least one item";
                errors.required(&path.child(field), why);
            }
        }
        let list = path.child("validations");
        let mut validations = Vec::new();
        for (i, validation) in given.iter().enumerate() {
            validations.extend(compiler.validation(errors, &list.index(i), validation));
        }
        let list = path.child("auditAnnotations");
        if annotations.len() > MAX_AUDIT_ANNOTATIONS {
            errors.too_many(&list, annotations.len(), MAX_AUDIT_ANNOTATIONS);
        }
        let mut keys = HashSet::new();
        for (i, annotation) in annotations.iter().enumerate() {
            let path = list.index(i);
            let full = format!("{name}/{}", annotation.key);
            errors.invalid_each(&path.child("key"), &full, names::qualified_name(&full));
            let at = path.child("valueExpression");
            let source = annotation.value_expression.as_str();
            compiler.compile(errors, &at, source, Sort::Annotation, "valueExpression is not specified");
            if !keys.insert(annotation.key.as_str()) {
                errors.duplicate(&path.child("key"), annotation.key.as_str());
            }
        }
        Self { conditions, variables, validations, mutations: Vec::new() }
    }

    /// Compiles those of a mutating policy; what is wrong with them goes to `errors`.
    pub(crate) fn of_mutating(errors: &mut FieldErrors, spec: &MutatingAdmissionPolicySpec) -> Self {
        let path = Path::root("spec");
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let conditions = compiler.conditions(
            errors,
            &path.child("matchConditions"),
            spec.match_conditions.as_deref().unwrap_or_default(),
        );
        let variables = compiler.variables(
            errors,
            &path.child("variables"),
            spec.variables.as_deref().unwrap_or_default(),
        );
        let list = path.child("mutations");
        let given = spec.mutations.as_deref().unwrap_or_default();
        if given.is_empty() {
            errors.required(&list, "mutations must contain at least one item");
        }
        let mut mutations = Vec::new();
        for (i, mutation) in given.iter().enumerate() {
            mutations.extend(compiler.mutation(errors, &list.index(i), mutation));
        }
        Self { conditions, variables, validations: Vec::new(), mutations }
    }
}

/// What an expression is for: what it may read, and what it must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Condition,
    Variable,
    Validation,
    Message,
    Annotation,
    Apply,
    JsonPatch,
}

struct Compiler {
    environment: Environment<'static>,
    expressions: usize,
    bytes: usize,
}

impl Compiler {
    fn new(has_params: bool) -> Self {
        let mut variables = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("request", Type::Schema(&REQUEST)),
            ("namespaceObject", Type::Dyn),
        ];
        if has_params {
            variables.push(("params", Type::Dyn));
        }
        Self { environment: Environment::of(variables), expressions: 0, bytes: 0 }
    }

    /// An expression, if it is sound.
    fn compile(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        source: &str,
        sort: Sort,
        missing: &str,
    ) -> Option<Program> {
        if source.trim().is_empty() {
            errors.required(path, missing);
            return None;
        }
        self.expressions += 1;
        self.bytes += source.len();
        if self.expressions > MAX_EXPRESSIONS || self.bytes > MAX_BYTES {
            let most = format!("must be no more than {MAX_EXPRESSIONS} expressions of {MAX_BYTES} bytes");
            errors.forbidden(path, most);
            return None;
        }
        let result: &[Type<'_>] = match sort {
            Sort::Condition | Sort::Validation => &[Type::Bool],
            Sort::Message => &[Type::Text],
            Sort::Annotation => &[Type::Text, Type::Null],
            Sort::Variable => &[Type::Dyn],
            Sort::Apply => &[Type::Written],
            Sort::JsonPatch => &[Type::List],
        };
        let mut environment = match sort {
            // What else there is to read is not judged before it is known whether the policy is asked.
            Sort::Condition => Environment::of(self.environment.variables.clone()),
            _ => self.environment.clone(),
        };
        environment.writes_objects = matches!(sort, Sort::Apply | Sort::JsonPatch);
        if sort != Sort::Message {
            environment.variables.push(("authorizer", Type::Dyn));
        }
        let compiled = Program::compile_in(source, &environment, result);
        compiled.map_err(|error| errors.invalid(path, source, error)).ok()
    }

    fn conditions(
        &mut self,
        errors: &mut FieldErrors,
        list: &Path<'_>,
        given: &[MatchCondition],
    ) -> Vec<(String, Program)> {
        if given.len() > MAX_MATCH_CONDITIONS {
            errors.too_many(list, given.len(), MAX_MATCH_CONDITIONS);
        }
        let mut seen = HashSet::new();
        let mut compiled = Vec::new();
        for (i, condition) in given.iter().enumerate() {
            let path = list.index(i);
            let at = path.child("expression");
            let program = self.compile(errors, &at, &condition.expression, Sort::Condition, "");
            compiled.extend(program.map(|program| (condition.name.clone(), program)));
            errors.required_name(&path.child("name"), &condition.name, names::qualified_name);
            if !condition.name.is_empty() && !seen.insert(&condition.name) {
                errors.duplicate(&path.child("name"), &condition.name);
            }
        }
        compiled
    }

    fn variables(
        &mut self,
        errors: &mut FieldErrors,
        list: &Path<'_>,
        given: &[Variable],
    ) -> Vec<(String, Program)> {
        let mut compiled: Vec<(String, Program)> = Vec::new();
        for (i, variable) in given.iter().enumerate() {
            let path = list.index(i);
            let at = path.child("name");
            if variable.name.trim().is_empty() {
                errors.required(&at, "name is not specified");
            } else if !is_identifier(&variable.name) {
                errors.invalid(&at, &variable.name, "name is not a valid CEL identifier");
            } else if compiled.iter().any(|(name, _)| *name == variable.name) {
                errors.duplicate(&at, &variable.name);
                continue;
            }
            let at = path.child("expression");
            let program = self.compile(
                errors,
                &at,
                &variable.expression,
                Sort::Variable,
                "expression is not specified",
            );
            if let Some(program) = program {
                self.environment.compose(&variable.name, &program);
                compiled.push((variable.name.clone(), program));
            }
        }
        compiled
    }

    fn validation(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        given: &GivenValidation,
    ) -> Option<Validation> {
        let at = path.child("expression");
        let program =
            self.compile(errors, &at, &given.expression, Sort::Validation, "expression is not specified");
        let message_expression = given.message_expression.as_deref().filter(|source| !source.is_empty());
        let message_expression = message_expression.and_then(|source| {
            let at = path.child("messageExpression");
            if source.trim().is_empty() {
                errors.invalid(&at, source, "must be non-empty if specified");
                return None;
            }
            self.compile(errors, &at, source, Sort::Message, "")
        });
        if let Some(message) = given.message.as_deref().filter(|message| !message.is_empty()) {
            let at = path.child("message");
            if message.trim().is_empty() {
                errors.invalid(&at, message, "message must be non-empty if specified");
            } else if message.trim().contains(['\n', '\r']) {
                errors.invalid(&at, message, "message must not contain line breaks");
            }
        }
        if let Some(reason) = &given.reason {
            errors.one_of(&path.child("reason"), reason, REASONS);
        }
        Some(Validation {
            text: given.expression.trim().to_string(),
            program: program?,
            message: given.message.as_deref().map(str::trim).filter(|m| !m.is_empty()).map(Into::into),
            message_expression,
            reason: given.reason.clone(),
        })
    }
}

impl Compiler {
    fn mutation(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        given: &GivenMutation,
    ) -> Option<Mutation> {
        const MISSING: &str = "expression is not specified";
        let apply = given.apply_configuration.as_ref().map(|own| own.expression.as_deref());
        let patch = given.json_patch.as_ref().map(|own| own.expression.as_deref());
        let (own, other, field, not, sort) = match given.patch_type.as_str() {
            "ApplyConfiguration" => (apply, patch, "applyConfiguration", "jsonPatch", Sort::Apply),
            "JSONPatch" => (patch, apply, "jsonPatch", "applyConfiguration", Sort::JsonPatch),
            "" => {
                errors.required(&path.child("patchType"), "");
                return None;
            }
            unknown => {
                errors.one_of(&path.child("patchType"), unknown, &["ApplyConfiguration", "JSONPatch"]);
                return None;
            }
        };
        let kind = &given.patch_type;
        if other.is_some() {
            let why = format!("must not be specified when patchType is {kind}");
            errors.forbidden(&path.child(not), why);
        }
        let at = path.child(field);
        let Some(source) = own else {
            errors.required(&at, format!("must be specified when patchType is {kind}"));
            return None;
        };
        let source = source.unwrap_or_default();
        let program = self.compile(errors, &at.child("expression"), source, sort, MISSING)?;
        Some(if sort == Sort::Apply { Mutation::Apply(program) } else { Mutation::JsonPatch(program) })
    }
}

/// Whether an expression could name something so.
fn is_identifier(name: &str) -> bool {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !RESERVED.contains(&name)
}
