//! The JSON Schema of executor.json, made from the types. Checks nothing itself.

use serde_json::Value;

use super::file::SettingsFile;

/// The schema as a document: what `config schema` prints and `init` writes beside executor.json.
pub fn schema() -> Value {
    let mut schema = schemars::SchemaGenerator::default()
        .into_root_schema_for::<SettingsFile>()
        .to_value();
    if let Some(properties) = schema
        .pointer_mut("/properties/version")
        .and_then(Value::as_object_mut)
    {
        properties.insert("const".to_owned(), SettingsFile::VERSION.into());
    }
    schema
}
