//! The expressions of a policy: compiled and checked when the policy is written, evaluated for each request.

use std::collections::HashSet;

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingAdmissionPolicySpec, Mutation as GivenMutation, ValidatingAdmissionPolicySpec,
    Validation as GivenValidation, Variable,
};

use crate::match_conditions::{AUTHORIZER, Conditions, variables};
use apimachinery::cel::{Environment, Program, Type, is_identifier};
use apimachinery::validate::{FieldErrors, Path, names};

/// The maximum number of expressions in a policy. The client that writes the policy waits while they are compiled.
const MAX_EXPRESSIONS: usize = 400;
/// The maximum size of all expressions of a policy together.
const MAX_BYTES: usize = 256 * 1024;
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// The maximum size of the expression of an audit annotation, as in Kubernetes.
const MAX_ANNOTATION_BYTES: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// The expressions of a policy.
#[derive(Debug, Default)]
pub struct Expressions {
    /// The policy applies only to requests for which all of these are true.
    pub conditions: Conditions,
    /// Values that the other expressions read as `variables.NAME`. Each may read the variables before it.
    pub variables: Vec<(String, Program)>,
    /// The validations, in their order.
    pub validations: Vec<Validation>,
    /// Audit annotations; only validating policies have them.
    pub annotations: Vec<AuditAnnotation>,
    /// The mutations, in their order.
    pub mutations: Vec<Mutation>,
}

/// A change that a mutating policy makes to an object.
#[derive(Debug)]
pub enum Mutation {
    /// Evaluates to an apply configuration, which is merged into the object.
    Apply(Program),
    /// Evaluates to a list of JSON patch operations.
    JsonPatch(Program),
}

/// A condition that a request must meet.
#[derive(Debug)]
pub struct Validation {
    /// The expression's source.
    pub text: String,
    /// The compiled expression.
    pub program: Program,
    /// The message of a refusal.
    pub message: Option<String>,
    /// The expression that computes the message of a refusal.
    pub message_expression: Option<Program>,
    /// The reason of a refusal.
    pub reason: Option<String>,
}

/// A value that the audit log records for a request.
#[derive(Debug)]
pub struct AuditAnnotation {
    /// The key of the annotation.
    /// The key of the annotation.
    pub key: String,
    /// The expression's source.
    pub text: String,
    /// Evaluates to the value; null or an empty text records nothing.
    pub program: Program,
}

impl Expressions {
    /// Compiles the expressions of a validating policy, and adds their errors to `errors`.
    pub fn of_validating(errors: &mut FieldErrors, name: &str, spec: &ValidatingAdmissionPolicySpec) -> Self {
        let path = Path::root("spec");
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let (conditions, variables) =
            compiler.common(errors, &path, spec.match_conditions.as_deref(), spec.variables.as_deref());
        let given = spec.validations.as_deref().unwrap_or_default();
        let annotations = spec.audit_annotations.as_deref().unwrap_or_default();
        if given.is_empty() && annotations.is_empty() {
            for field in ["validations", "auditAnnotations"] {
                let detail = "validations or auditAnnotations must contain at least one item";
                errors.required(&path.child(field), detail);
            }
        }
        let list = path.child("validations");
        let mut validations = Vec::new();
        for (i, validation) in given.iter().enumerate() {
            validations.extend(compiler.validation(errors, &list.index(i), validation));
        }
        let list = path.child("auditAnnotations");
        if annotations.len() > MAX_AUDIT_ANNOTATIONS {
            let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
            errors.invalid_itself(&list, detail);
        }
        let (mut keys, mut compiled) = (HashSet::new(), Vec::new());
        for (path, annotation) in list.each(annotations.iter()) {
            let full = format!("{name}/{}", annotation.key);
            errors.invalid_each(&path.child("key"), &full, names::qualified_name(&full));
            let at = path.child("valueExpression");
            let source = annotation.value_expression.as_str();
            let missing = "valueExpression is not specified";
            let program = if source.trim().len() > MAX_ANNOTATION_BYTES {
                let detail = format!("must not exceed {MAX_ANNOTATION_BYTES} bytes in length");
                errors.required(&at, detail);
                None
            } else {
                compiler.compile(errors, &at, source, ExpressionType::Annotation, missing)
            };
            compiled.extend(program.map(|program| AuditAnnotation {
                key: annotation.key.clone(),
                text: source.into(),
                program,
            }));
            if !keys.insert(annotation.key.as_str()) {
                errors.duplicate(&path.child("key"), annotation.key.as_str());
            }
        }
        Self { conditions, variables, validations, annotations: compiled, mutations: Vec::new() }
    }

    /// Compiles the expressions of a mutating policy, and adds their errors to `errors`.
    pub fn of_mutating(errors: &mut FieldErrors, spec: &MutatingAdmissionPolicySpec) -> Self {
        let path = Path::root("spec");
        let mut compiler = Compiler::new(spec.param_kind.is_some());
        let (conditions, variables) =
            compiler.common(errors, &path, spec.match_conditions.as_deref(), spec.variables.as_deref());
        let list = path.child("mutations");
        let given = spec.mutations.as_deref().unwrap_or_default();
        if given.is_empty() {
            errors.required(&list, "mutations must contain at least one item");
        }
        let mut mutations = Vec::new();
        for (i, mutation) in given.iter().enumerate() {
            mutations.extend(compiler.mutation(errors, &list.index(i), mutation));
        }
        Self { conditions, variables, validations: Vec::new(), annotations: Vec::new(), mutations }
    }
}

/// The use of an expression, which decides the variables it may read and the type of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpressionType {
    Variable,
    Validation,
    Message,
    Annotation,
    Apply,
    JsonPatch,
}

struct Compiler {
    has_params: bool,
    environment: Environment<'static>,
    expressions: usize,
    bytes: usize,
}

impl Compiler {
    fn new(has_params: bool) -> Self {
        let environment = Environment::of(variables(has_params));
        Self { has_params, environment, expressions: 0, bytes: 0 }
    }

    /// Compiles the parts that both kinds of policies have.
    fn common(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        conditions: Option<&[MatchCondition]>,
        variables: Option<&[Variable]>,
    ) -> (Conditions, Vec<(String, Program)>) {
        let list = path.child("matchConditions");
        let conditions = Conditions::read(errors, &list, conditions.unwrap_or_default(), self.has_params);
        (conditions, self.variables(errors, &path.child("variables"), variables.unwrap_or_default()))
    }

    /// Compiles one expression; returns `None` if it has errors.
    fn compile(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        source: &str,
        expression_type: ExpressionType,
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
        let result: &[Type<'_>] = match expression_type {
            ExpressionType::Validation => &[Type::Bool],
            ExpressionType::Message => &[Type::Text],
            ExpressionType::Annotation => &[Type::Text, Type::Null],
            ExpressionType::Variable => &[Type::Dyn],
            ExpressionType::Apply => &[Type::ObjectLiteral],
            ExpressionType::JsonPatch => &[Type::List],
        };
        let mut environment = self.environment.clone();
        environment.writes_objects =
            matches!(expression_type, ExpressionType::Apply | ExpressionType::JsonPatch);
        if expression_type != ExpressionType::Message {
            environment.variables.push(AUTHORIZER);
        }
        let compiled = Program::compile_in(source, &environment, result);
        compiled.map_err(|error| errors.invalid(path, source, error)).ok()
    }

    fn variables(
        &mut self,
        errors: &mut FieldErrors,
        list: &Path<'_>,
        items: &[Variable],
    ) -> Vec<(String, Program)> {
        let mut compiled: Vec<(String, Program)> = Vec::new();
        for (path, variable) in list.each(items.iter()) {
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
                ExpressionType::Variable,
                "expression is not specified",
            );
            if let Some(program) = program {
                program.compose_into(&variable.name, &mut self.environment);
                compiled.push((variable.name.clone(), program));
            }
        }
        compiled
    }

    fn validation(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        input: &GivenValidation,
    ) -> Option<Validation> {
        let at = path.child("expression");
        let program = self.compile(
            errors,
            &at,
            &input.expression,
            ExpressionType::Validation,
            "expression is not specified",
        );
        let message_expression = input.message_expression.as_deref().filter(|source| !source.is_empty());
        let message_expression = message_expression.and_then(|source| {
            let at = path.child("messageExpression");
            if source.trim().is_empty() {
                errors.invalid(&at, source, "must be non-empty if specified");
                return None;
            }
            self.compile(errors, &at, source, ExpressionType::Message, "")
        });
        if let Some(message) = input.message.as_deref().filter(|message| !message.is_empty()) {
            let at = path.child("message");
            if message.trim().is_empty() {
                errors.invalid(&at, message, "must be non-empty if specified");
            } else if message.trim().contains(['\n', '\r']) {
                errors.invalid(&at, message, "must not contain line breaks");
            }
        }
        if let Some(reason) = &input.reason {
            errors.one_of(&path.child("reason"), reason, REASONS);
        }
        Some(Validation {
            text: input.expression.trim().to_string(),
            program: program?,
            message: input.message.as_deref().map(str::trim).filter(|m| !m.is_empty()).map(Into::into),
            message_expression,
            reason: input.reason.clone(),
        })
    }
}

impl Compiler {
    fn mutation(
        &mut self,
        errors: &mut FieldErrors,
        path: &Path<'_>,
        input: &GivenMutation,
    ) -> Option<Mutation> {
        const MISSING: &str = "expression is not specified";
        let apply = input.apply_configuration.as_ref().map(|own| own.expression.as_deref());
        let patch = input.json_patch.as_ref().map(|own| own.expression.as_deref());
        let (own, other, field, not, sort) = match input.patch_type.as_str() {
            "ApplyConfiguration" => (apply, patch, "applyConfiguration", "jsonPatch", ExpressionType::Apply),
            "JSONPatch" => (patch, apply, "jsonPatch", "applyConfiguration", ExpressionType::JsonPatch),
            "" => {
                errors.required(&path.child("patchType"), "");
                return None;
            }
            unknown => {
                errors.one_of(&path.child("patchType"), unknown, &["ApplyConfiguration", "JSONPatch"]);
                return None;
            }
        };
        let kind = &input.patch_type;
        if other.is_some() {
            let detail = format!("must not be specified when patchType is {kind}");
            errors.invalid(&path.child(not), &format!("{{{not}}}"), detail);
        }
        let at = path.child(field);
        let Some(source) = own else {
            errors.required(&at, format!("must be specified when patchType is {kind}"));
            return None;
        };
        let source = source.unwrap_or_default();
        let program = self.compile(errors, &at.child("expression"), source, sort, MISSING)?;
        Some(if sort == ExpressionType::Apply {
            Mutation::Apply(program)
        } else {
            Mutation::JsonPatch(program)
        })
    }
}
