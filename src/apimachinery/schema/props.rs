//! A type of the graph in the form of a custom resource's schema, for code that handles both alike.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

use super::graph::{Scalar, Shape, TypeId, graph};
use base::sort::CollectMap;

/// Returns the schema of a type; a recursive reference permits values of any type.
pub fn schema_props(root: TypeId) -> JSONSchemaProps {
    of_type(root, &mut Vec::new())
}

fn of_type(id: TypeId, above: &mut Vec<TypeId>) -> JSONSchemaProps {
    if above.contains(&id) {
        return JSONSchemaProps::default();
    }
    above.push(id);
    let fields = graph().get(id).fields.iter();
    let properties =
        fields.map(|field| (field.name.to_string(), of_shape(&field.shape, above))).collect_map();
    above.pop();
    JSONSchemaProps { properties: Some(properties), ..typed("object") }
}

fn of_shape(shape: &Shape, above: &mut Vec<TypeId>) -> JSONSchemaProps {
    match shape {
        Shape::Any => JSONSchemaProps::default(),
        Shape::Scalar(scalar) => of_scalar(*scalar),
        Shape::Object(id) => of_type(*id, above),
        Shape::List(items) => {
            let items = JSONSchemaPropsOrArray::Schema(Box::new(of_shape(items, above)));
            JSONSchemaProps { items: Some(items), ..typed("array") }
        }
        Shape::Map(values) => {
            let values = JSONSchemaPropsOrBool::Schema(Box::new(of_shape(values, above)));
            JSONSchemaProps { additional_properties: Some(values), ..typed("object") }
        }
    }
}

fn of_scalar(scalar: Scalar) -> JSONSchemaProps {
    let formatted = |format: &str| JSONSchemaProps { format: Some(format.into()), ..typed("string") };
    match scalar {
        Scalar::String | Scalar::Quantity => typed("string"),
        Scalar::Bytes => formatted("byte"),
        Scalar::Time | Scalar::MicroTime => formatted("date-time"),
        Scalar::Int32 | Scalar::Int64 => typed("integer"),
        Scalar::Double => typed("number"),
        Scalar::Bool => typed("boolean"),
        Scalar::IntOrString => {
            JSONSchemaProps { x_kubernetes_int_or_string: Some(true), ..JSONSchemaProps::default() }
        }
    }
}

fn typed(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps { type_: Some(type_.into()), ..JSONSchemaProps::default() }
}
